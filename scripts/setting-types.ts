import {
  choicesOf,
  factsOf,
  fixedDefault,
  secretsInFiles,
  settingNames,
} from '../src/config/settings.ts'

const maxColumns = 90

/** A comment as it stands above a member. No line of it is longer than Biome lets code be. */
function comment(...paragraphs: readonly string[]): string {
  const lines = paragraphs.flatMap(wrapped).map((line) => `   * ${line}`)
  return ['  /**', ...lines, '   */'].join('\n')
}

function wrapped(text: string): string[] {
  const lines: string[] = []
  // A pattern such as /v3/* must not end the comment.
  for (const word of text.replaceAll('*/', '*\\/').split(' ')) {
    const longer = lines.length === 0 ? word : `${lines.at(-1)} ${word}`
    if (lines.length > 0 && longer.length + '   * '.length <= maxColumns)
      lines[lines.length - 1] = longer
    else lines.push(word)
  }
  return lines
}

/** Broken over several lines as Biome breaks it. */
function typeOf(name: string, choices: readonly string[] | undefined): string {
  const member = `  readonly ${name}?:`
  if (choices === undefined) return `${member} SettingValue | undefined`
  const quoted = choices.map((choice) => `'${choice}'`)
  const union = quoted.join(' | ')
  const short = `${member} OneOf<${union}>`
  if (short.length <= maxColumns) return short
  const fits = '    '.length + union.length <= maxColumns
  const lines = fits ? [union] : quoted.map((choice) => `| ${choice}`)
  return [`${member} OneOf<`, ...lines.map((line) => `    ${line}`), '  >'].join('\n')
}

/** The text of src/gateway/settings.ts. */
export function settingTypes(): string {
  const members = settingNames.map((name) => {
    const { meaning, defaultText } = factsOf(name)
    const standard = defaultText ?? fixedDefault(name) ?? 'none'
    const text = comment(meaning, `@default ${standard}`)
    return `${text}\n${typeOf(name, choicesOf(name))}`
  })
  const files = Object.entries(secretsInFiles).map(([name, secret]) => {
    const text = comment(`The path of a file that holds ${secret}.`)
    return `${text}\n${typeOf(name, undefined)}`
  })
  return `// Generated from src/config/settings.ts by \`npm run docs\`. Edits here are lost.
import type { SettingValue } from '../config/problems.ts'

/**
 * Editors suggest the choices. Any other text is accepted here, because the values of
 * \`process.env\` are texts, and refused by createGateway() if it is none of the choices.
 */
type OneOf<Choice extends string> =
  | Choice
  | (string & {})
  | Exclude<SettingValue, string>
  | undefined

/** By the names that they have in the environment. A list may also be an array. */
export type GatewaySettings = {
${[...members, ...files].join('\n')}
}
`
}
