import { leavesRoom, memoryLimits } from '../process/memory.ts'
import type { LoadedConfig } from './load.ts'
import {
  factsOf,
  fixedDefault,
  type SettingName,
  secretSettings,
  settingGroups,
  settingNames,
} from './settings.ts'

const nameColumns = 32

function defaultText(name: SettingName): string {
  return factsOf(name).defaultText ?? fixedDefault(name) ?? 'none'
}

/** In 100 columns. Breaks at blanks, and after commas because the default of PAYMENTS_PATHS is longer than a line. */
function helpRow(name: SettingName): string {
  const text = `${factsOf(name).meaning} Default: ${defaultText(name)}`
  const lines = text.match(/.{1,68}(?:(?<=,)| |$)/g) ?? []
  return (
    `  ${name}`.padEnd(nameColumns) + lines.map((line) => line.trim()).join(`\n${' '.repeat(nameColumns)}`)
  )
}

/** For --help: the settings that a team sets, or every one, with meaning and default. */
export function helpText(which: 'team' | 'all'): string {
  const groups = settingGroups
    .map(
      ({ title, names }) => [title, names.filter((name) => which === 'all' || factsOf(name).team)] as const,
    )
    .filter(([, names]) => names.length > 0)
    .map(([title, names]) => [`${title}:`, ...names.map(helpRow)].join('\n'))
  const head =
    'Settings (environment variables; an empty one counts as unset; NAME_FILE names a file with a secret)'
  const end = which === 'all' ? '' : `\n--help all lists every setting (${settingNames.length}).\n`
  return `${head}\n\n${groups.join('\n\n')}\n${end}`
}

/** For --print-config: each value in effect and where it comes from. Secrets are masked. */
export function printConfig(loaded: LoadedConfig): string {
  const lines = settingNames.map((name) => {
    const { value, source } = loaded.sources[name]
    return `${name}=${value}  (${value === '' ? `${source}: none` : source})`
  })
  return `${lines.join('\n')}\n`
}

/** What to see to before production, and whether it is done; undefined: no setting shows it. */
const beforeProduction: [text: string, isDone: (loaded: LoadedConfig) => boolean | undefined][] = [
  [
    '`TRUST_PROXY` lists your proxies, and `CLIENT_IP_HEADER` is the header that they write.',
    ({ sources }) =>
      [sources.TRUST_PROXY, sources.CLIENT_IP_HEADER].every(({ source }) => source !== 'default'),
  ],
  ['`ADMIN_TOKEN` is set, or the console stays read-only.', ({ config }) => config.admin.token !== undefined],
  [
    '`STATE_DIRECTORY` or `VALKEY_URL` is set, so that a restart forgets no quote.',
    ({ config }) => config.state !== undefined || config.store !== undefined,
  ],
  [
    'V8 leaves the process a quarter of its memory (`node --max-old-space-size-percentage=50`).',
    () => leavesRoom(memoryLimits()),
  ],
  [
    'Your load balancer asks `/readyz` more often than `DRAIN_DELAY_MS`, and your supervisor waits longer than ' +
      'that and `DRAIN_TIMEOUT_MS` together.',
    ({ config }) => (config.drain.delayMs === 0 ? false : undefined),
  ],
  ['Prometheus scrapes `/metrics` of the operations listener.', () => undefined],
  ['Prometheus has `grafana/alerts.yml`, and its alerts reach the person on call.', () => undefined],
  [
    '`ORDER_EXPIRED_QUOTE` is `refuse`: late orders are not sent.',
    ({ config }) => config.orders.expiredQuote === 'refuse',
  ],
]

/** For --check-config in production. */
export function productionList(loaded: LoadedConfig): string {
  const mark = (isDone: boolean | undefined) => (isDone === undefined ? 'check' : isDone ? 'done' : 'open')
  const lines = beforeProduction.map(([text, isDone]) => `  ${mark(isDone(loaded)).padEnd(7)}${text}`)
  return ['Before production (check: no setting shows it):', ...lines].join('\n').replaceAll('`', '')
}

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
  const inFiles = secretSettings.map((name) => `\`${name}\``).join(', ')
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

## Before production

With \`NODE_ENV=production\`, \`--check-config\` says of each line whether it is done, or that no setting shows it.

${beforeProduction.map(([text], index) => `${index + 1}. ${text}`).join('\n')}

${sections.join('\n\n')}
`
}
