import {
  factsOf,
  isKnownName,
  isSettingName,
  type SettingName,
  type SettingValues,
  settingNames,
  settings,
} from './settings.ts'

export type SettingValue = string | number | boolean | readonly (string | number)[]

export interface SettingProblem {
  name: string
  /** Masked if secret; undefined if not set. */
  value: string | undefined
  expected: string
  /** The line about it in the error's message; without it, `name=value - expected: expected`. */
  message?: string
}

export class SettingsError extends Error {
  readonly problems: readonly SettingProblem[]

  constructor(problems: readonly SettingProblem[]) {
    const count = problems.length === 1 ? 'There is a problem' : `There are ${problems.length} problems`
    super([`${count} with the settings:`, ...problems.map((problem) => `  ${lineOf(problem)}`)].join('\n'))
    this.name = 'SettingsError'
    this.problems = problems
  }
}

function lineOf({ name, value, expected, message }: SettingProblem): string {
  if (message !== undefined) return message
  return `${value === undefined ? `${name} is not set` : `${name}=${value}`} - expected: ${expected}`
}

interface Given {
  /** By name, trimmed; blank ones are left out. */
  texts: ReadonlyMap<string, string>
  problems: SettingProblem[]
}

function isReadable(value: unknown): boolean {
  if (Array.isArray(value)) return value.every((item) => !Array.isArray(item) && isReadable(item))
  return ['string', 'number', 'boolean'].includes(typeof value)
}

export function readGiven(given: Record<string, SettingValue | undefined>): Given {
  const texts = new Map<string, string>()
  const problems: SettingProblem[] = []
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null) continue
    if (isReadable(value)) {
      // An array becomes its items with commas between them, which is how a list setting is written.
      const text = String(value).trim()
      if (text !== '') texts.set(name, text)
    } else if (isKnownName(name)) {
      problems.push({
        name,
        value: `(${typeof value})`,
        expected: 'a string, a number, a boolean or an array of those',
      })
    } else {
      // Its name may nearly be a setting's.
      texts.set(name, `(${typeof value})`)
    }
  }
  return { texts, problems }
}

/**
 * Reads each setting on its own. For a wrong value it returns a problem, and the default in its place.
 * @internal
 */
export function readValues(texts: ReadonlyMap<string, string>): {
  values: SettingValues
  problems: SettingProblem[]
} {
  const result = settings.safeParse(Object.fromEntries(settingNames.map((name) => [name, texts.get(name)])))
  if (result.success) return { values: result.data, problems: [] }
  const expectedByName = new Map<SettingName, string>()
  for (const issue of result.error.issues) {
    const name = String(issue.path[0])
    if (isSettingName(name) && !expectedByName.has(name)) expectedByName.set(name, issue.message)
  }
  const problems = [...expectedByName].map(([name, expected]) => ({
    name,
    value: displaySetting(name, texts.get(name) ?? ''),
    expected,
  }))
  const good = settingNames.filter((name) => !expectedByName.has(name)).map((name) => [name, texts.get(name)])
  return { values: settings.parse(Object.fromEntries(good)), problems }
}

/** The value of a setting, fit for a terminal or a log: on one line, of limited length, without secrets. */
export function displaySetting(name: string, text: string): string {
  // The file of a secret may hold the secret itself, set in the wrong place.
  return displayText(text, isSettingName(name) ? factsOf(name).secret : 'unless-path')
}

export function displayText(text: string, secret?: ReturnType<typeof factsOf>['secret']): string {
  if (text === '') return text
  if (secret === 'whole' || (secret === 'unless-path' && !pathPattern.test(text))) return '****'
  const masked = secret === 'in-url' ? maskUrl(text) : text
  const short = masked.length > 200 ? `${masked.slice(0, 200)}…` : masked
  // Control characters could rewrite a terminal's lines.
  return short.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

const pathPattern = /^(?:\.{0,2}|[a-z]:)[\\/]\S*$/i

function maskUrl(text: string): string {
  return (
    text
      .replace(/^((?:https?|(?:redis|valkey)s?(?:\+\w+)?):\/\/)?.*@/is, '$1****@')
      .replace(/([?#]).*$/s, '$1****')
      // A password without a host after it: text after a colon that is not a port.
      .replace(/^((?:[a-z][\w+.-]*:\/\/)?(?![^/]*\[)[^:/]*:)(?!\/\/|\d{1,5}(?:[,/]|$))[^@]*$/is, '$1****')
  )
}
