import { beforeProduction } from '../src/config/help.ts'
import {
  factsOf,
  fixedDefault,
  type SettingName,
  secretsInFiles,
  settingGroups,
} from '../src/config/settings.ts'

function pageRow(name: SettingName): string {
  const { meaning, defaultText: explained, secret } = factsOf(name)
  const fixed = fixedDefault(name)
  const shownDefault = explained ?? (fixed === undefined ? 'none' : `\`${fixed}\``)
  const note = secret === 'whole' ? ' A secret: masked wherever it is shown.' : ''
  const cells = [`\`${name}\``, shownDefault, meaning + note]
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

/** The text of docs/settings.md. */
export function settingsPage(): string {
  const inFiles = Object.values(secretsInFiles)
    .map((name) => `\`${name}\``)
    .join(', ')
  const head = ['| name | default | meaning |', '|---|---|---|']
  const sections = settingGroups.map(({ title, names }) =>
    [`## ${title}`, '', ...head, ...names.map(pageRow)].join('\n'),
  )
  return `<!-- Generated from src/config/settings.ts by \`npm run docs\`. Edits here are lost. -->
# Settings

Every setting is an environment variable with a default that works; only \`SWAP_BASE_URL\` is required, and only
in production. Settings are checked at startup: a wrong value stops it, and the error lists all problems, each
with its value and what would be right. An empty value counts as unset. A default of none means unset; do not
write the word. Any secret (${inFiles}) may be in a file instead, named by its name with
\`_FILE\` behind it, such as \`ADMIN_TOKEN_FILE\`: it is read at startup, and its last newline is cut. A name that is
nearly a setting's, or that is not a setting and begins as settings do (\`SWAP_\`, \`ORDER_\`, \`STATE_\` and so on), is
a warning at startup and an error of \`--check-config\`; what Kubernetes sets for a Service of such a name
(\`…_SERVICE_HOST\`, \`…_PORT\`) is not. \`--check-config\` also tries \`STATE_DIRECTORY\`, and leaves nothing behind.
A setting that is legal and probably not meant, or that has no effect beside the others, is a warning of both.

\`quotegate --print-config\` shows each value in effect and where it comes from, secrets masked.

[Before production](before-production.md) is a list of what to see to beside them.

${sections.join('\n\n')}
`
}

/** The text of docs/before-production.md. */
export function beforeProductionPage(): string {
  const list = beforeProduction.map(([text], index) => `${index + 1}. ${text}`)
  return `<!-- Generated from src/config/help.ts by \`npm run docs\`. Edits here are lost. -->
# Before production

With \`NODE_ENV=production\`, \`--check-config\` marks each of these as done, as open, or as one that you have to check
yourself because no setting shows it.

${list.join('\n')}

[operations.md](operations.md) says how: proxies in front, health checks, drain, alerts, secrets.
`
}
