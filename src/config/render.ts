import type { LoadedConfig } from './config.ts'
import { factsOf, fixedDefault, type SettingName, settingGroups, settingNames } from './settings.ts'

const columns = 100
const nameColumns = 32

function defaultText(name: SettingName): string {
  return factsOf(name).defaultText ?? fixedDefault(name) ?? 'none'
}

function namesIn(group: (typeof settingGroups)[number]): SettingName[] {
  return settingNames.filter((name) => factsOf(name).group === group)
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line]
}

function helpRow(name: SettingName): string {
  const lines = wrap(`${factsOf(name).meaning} Default: ${defaultText(name)}`, columns - nameColumns)
  return lines
    .map((line, index) => (index === 0 ? `  ${name}`.padEnd(nameColumns) : ' '.repeat(nameColumns)) + line)
    .join('\n')
}

/** For --help: every setting with its meaning and default. */
export function helpText(): string {
  const groups = settingGroups.map((group) => [`${group}:`, ...namesIn(group).map(helpRow)].join('\n'))
  return `Settings (environment variables; an empty one counts as unset)\n\n${groups.join('\n\n')}\n`
}

/** For --print-config: what is in effect, and why. Secrets are masked. */
export function printConfig(loaded: LoadedConfig): string {
  const lines = settingNames.map((name) => {
    const { value, source } = loaded.sources[name]
    return `${name}=${value}  (${value === '' ? `${source}: none` : source})`
  })
  return `${lines.join('\n')}\n`
}

function pageRow(name: SettingName): string {
  const { meaning, defaultText: explained, secret } = factsOf(name)
  const fixed = fixedDefault(name)
  const shownDefault = explained ?? (fixed === undefined ? 'none' : `\`${fixed}\``)
  const note = secret === 'whole' ? ' A secret: masked wherever it is shown.' : ''
  const cells = [`\`${name}\``, shownDefault, meaning + note]
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

/** docs/settings.md. */
export function settingsPage(): string {
  const sections = settingGroups.map((group) =>
    [`## ${group}`, '', '| name | default | meaning |', '|---|---|---|', ...namesIn(group).map(pageRow)].join(
      '\n',
    ),
  )
  return `<!-- Generated from src/config/settings.ts by \`npm run docs\`. Edits here are lost. -->
# Settings

All settings are environment variables, and all have a default that works (in production, \`SWAP_BASE_URL\`
is required). They are checked at start: a wrong value stops the start, and every problem is named at once
with its value and what would be right. An empty value counts as unset; a default of none means that, and is no value to
write. \`on\`, \`true\` and \`1\` are the same, and so are \`off\`, \`false\` and \`0\`. A name that is nearly a setting's is
pointed out: as a warning at start, as an error by \`--check-config\`.

\`quotegate --print-config\` shows what is in effect and where each value comes from, secrets masked.

${sections.join('\n\n')}
`
}
