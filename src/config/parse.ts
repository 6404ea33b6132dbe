import { nearMiss } from './near-misses.ts'
import {
  factsOf,
  goneSettings,
  goneValues,
  isSettingName,
  type SettingName,
  type SettingValues,
  settingNames,
  settings,
  shownValue,
} from './settings.ts'

export type SettingValue = string | number | boolean | readonly (string | number)[]

export interface SettingProblem {
  name: string
  /** Masked if secret; undefined if not set. */
  value: string | undefined
  expected: string
}

export class SettingsError extends Error {
  readonly problems: readonly SettingProblem[]

  constructor(problems: readonly SettingProblem[]) {
    const lines = problems.map(({ name, value, expected }) => {
      const shown = value === undefined ? `${name} is not set` : `${name}=${value}`
      return `  ${shown} - expected: ${expected}`
    })
    const count = problems.length === 1 ? 'There is a problem' : `There are ${problems.length} problems`
    super([`${count} with the settings:`, ...lines].join('\n'))
    this.name = 'SettingsError'
    this.problems = problems
  }
}

interface Given {
  /** By name, trimmed, blank ones left out. */
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
      // A list is written with commas, which is how an array is too.
      const text = String(value).trim()
      if (text !== '') texts.set(name, text)
    } else if (isSettingName(name)) {
      problems.push({
        name,
        value: `(${typeof value})`,
        expected: 'a string, a number, a boolean or an array of those',
      })
    }
  }
  return { texts, problems }
}

/** Takes out what earlier versions knew, and says what counts instead. */
export function replaceGone(texts: ReadonlyMap<string, string>): {
  texts: ReadonlyMap<string, string>
  found: SettingProblem[]
} {
  const left = new Map(texts)
  const found: SettingProblem[] = []
  for (const [name, instead] of Object.entries(goneSettings)) {
    const text = texts.get(name)
    if (text === undefined) continue
    left.delete(name)
    found.push({ name, value: shownValue(text, undefined), expected: `nothing; ${instead}` })
  }
  for (const { name, value, takenAs, why } of goneValues) {
    if (texts.get(name)?.toLowerCase() !== value) continue
    left.set(name, takenAs)
    found.push({ name, value, expected: `${takenAs}, which it is taken as; ${why}` })
  }
  return { texts: left, found }
}

export function shownText(name: SettingName, text: string): string {
  return shownValue(text, factsOf(name).secret)
}

/** Reads every setting by itself; a wrong one is a problem, and its default stands in for it. */
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
    value: shownText(name, texts.get(name) ?? ''),
    expected,
  }))
  const good = settingNames.filter((name) => !expectedByName.has(name)).map((name) => [name, texts.get(name)])
  return { values: settings.parse(Object.fromEntries(good)), problems }
}

export function nearMissesOf(texts: ReadonlyMap<string, string>): { name: string; meant: SettingName }[] {
  return [...texts].flatMap(([name, text]) => {
    const meant = nearMiss(name, text)
    return meant === undefined ? [] : [{ name: shownValue(name, undefined), meant }]
  })
}
