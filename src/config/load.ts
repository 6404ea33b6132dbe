import { tryFolder } from '../process/folders.ts'
import { type MemoryLimits, memoryLimits } from '../process/memory.ts'
import { checkTogether } from './checks.ts'
import { type Config, deepFreeze, toConfig, withDefaults } from './config.ts'
import { type Limits, limitsOf, testLimitsName } from './limits.ts'
import { checkNames } from './names.ts'
import { onOneLine, type SettingProblem, SettingsError, type SettingValue } from './problems.ts'
import {
  factsOf,
  fileOf,
  isKnownName,
  isSettingName,
  type SettingName,
  type SettingValues,
  secretSettings,
  settingNames,
  settings,
  textOf,
} from './settings.ts'
import { maskUrl } from './urls.ts'
import { textFile } from './values.ts'

export interface LoadedConfig {
  config: Config
  warnings: string[]
  /** Each setting in effect, as it may be shown, and where it comes from: secrets are masked. */
  sources: Readonly<Record<SettingName, { readonly value: string; readonly source: string }>>
}

export interface LoadOptions {
  /** For names that are nearly a setting's. */
  nearMisses?: 'warn' | 'error'
  /** For other names that begin as settings do, and for settings and values of earlier versions. */
  unknownNames?: 'warn' | 'error'
  /** False: HOST may never be used, because the gateway may be mounted in another app. */
  listens?: boolean
  /** For tests: times and sizes in place of those that are always used. */
  limits?: Partial<Limits>
  /** Those of this process, if not given. */
  memory?: MemoryLimits
  /** Whether the folder of STATE_DIRECTORY is tried. If not, it is not touched. */
  tryDirectory?: boolean
}

/** Notes what would be right in place of a setting's value. Of each setting, only what is noted first is reported. */
type Note = (name: string, expected: string) => void

/** The one way from settings to a Config. Throws a SettingsError that names every problem at once. */
export function loadConfig(
  given: Record<string, SettingValue | undefined>,
  options: LoadOptions = {},
): LoadedConfig {
  const { nearMisses = 'error', unknownNames = 'warn', listens = true, memory = memoryLimits() } = options
  const expectedOf = new Map<string, string>()
  const isWrong = (name: string) => expectedOf.has(name)
  const note: Note = (name, expected) => {
    // Once a value is wrong, its default is in place, and nothing is said of that default.
    if (!isWrong(name)) expectedOf.set(name, expected)
  }
  const texts = readTexts(given, note)
  const gone = withoutPrefixes(texts)
  const fileOfSecret = readSecretFiles(texts, note)
  const isSet = (name: string) => texts.has(name)
  const read = readValues(texts, note)
  const { values, sources } = withDefaults(read, (name) => isSet(name) && !isWrong(name), memory)
  const limits = limitsOf(options.limits ?? {}, texts.get(testLimitsName))
  if (limits === undefined) note(testLimitsName, 'not set; it is for the tests of quotegate itself')
  const warnings: string[] = []
  for (const found of checkTogether(values, { isSet, isWrong, listens, memory })) {
    if (typeof found === 'string') warnings.push(found)
    else if (found) note(...found)
  }
  const unfit = options.tryDirectory && values.STATE_DIRECTORY && tryFolder(values.STATE_DIRECTORY)
  if (unfit) note('STATE_DIRECTORY', unfit)

  const problems = [...expectedOf].map(([name, expected]): SettingProblem => {
    const file = fileOfSecret.get(name)
    const [shown, right] = file === undefined ? [name, expected] : [file, `a file that holds ${expected}`]
    const text = texts.get(shown)
    return { name: shown, value: text && displaySetting(shown, text), expected: right }
  })
  const names = checkNames(texts)
  for (const [how, found] of [
    [nearMisses, names.near],
    [unknownNames, [...names.unknown, ...gone]],
  ] as const) {
    if (how === 'error') problems.push(...found)
    else warnings.push(...found.map(({ message }) => message))
  }
  if (problems.length > 0 || limits === undefined) throw new SettingsError(problems)

  const effective = (name: SettingName) => {
    const value = displaySetting(name, textOf(values[name]))
    const file = fileOfSecret.get(name)
    if (file) return { value, source: `read from ${file}=${displaySetting(file, texts.get(file) ?? '')}` }
    return { value, source: isSet(name) ? 'environment' : (sources.get(name) ?? 'default') }
  }
  const shown = Object.fromEntries(settingNames.map((name) => [name, effective(name)]))
  return {
    config: deepFreeze(toConfig(values, limits)),
    warnings,
    sources: deepFreeze(shown as LoadedConfig['sources']),
  }
}

function isScalar(value: unknown): boolean {
  return ['string', 'number', 'boolean'].includes(typeof value)
}

/** The settings by name, trimmed; blank ones are left out. */
function readTexts(given: Record<string, unknown>, note: Note): Map<string, string> {
  const texts = new Map<string, string>()
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null) continue
    const isReadable = Array.isArray(value) ? value.every(isScalar) : isScalar(value)
    // An array becomes its items with commas between them, which is how a list setting is written.
    const text = isReadable ? String(value).trim() : `(${typeof value})`
    if (text !== '') texts.set(name, text)
    if (!isReadable && isKnownName(name)) note(name, 'a string, a number, a boolean or an array of those')
  }
  return texts
}

/** A value of earlier versions: neighbouring addresses may be in different places. */
function withoutPrefixes(texts: Map<string, string>): Required<SettingProblem>[] {
  const name = 'QUOTE_PARTITION'
  if (texts.get(name)?.toLowerCase() !== 'prefix') return []
  texts.set(name, 'ip')
  const message = `${name}=prefix was removed and counts as ip: neighbouring addresses may be in different places.`
  return [{ name, value: 'prefix', expected: 'ip', message }]
}

/**
 * Any secret may be in a file: its name with _FILE behind it names the file. Adds those secrets to the texts, and
 * returns the setting that named the file by the name of its secret.
 */
function readSecretFiles(texts: Map<string, string>, note: Note) {
  const fileOfSecret = new Map<string, string>()
  for (const secret of secretSettings) {
    const name = fileOf(secret)
    const path = texts.get(name)
    if (path === undefined) continue
    const { data: text = '', error } = textFile.safeParse(path)
    if (texts.has(secret)) note(name, `not set, because ${secret} is set: keep one of the two`)
    else if (error) note(name, error.issues[0]?.message ?? '')
    else if (text.trim() === '') note(name, `a file that holds ${secret}; this file is empty`)
    else {
      texts.set(secret, text.replace(/\r?\n$/, ''))
      fileOfSecret.set(secret, name)
    }
  }
  return fileOfSecret
}

/** Reads each setting on its own. A wrong one is noted, and has its default. */
function readValues(texts: ReadonlyMap<string, string>, note: Note): SettingValues {
  const values = settingNames.map((name) => {
    const { data, error } = settings.shape[name].safeParse(texts.get(name))
    if (error === undefined) return [name, data]
    note(name, error.issues[0]?.message ?? '')
    return [name, settings.shape[name].parse(undefined)]
  })
  return Object.fromEntries(values) as SettingValues
}

/** The value of a setting, fit for a terminal or a log, without secrets. */
function displaySetting(name: string, text: string): string {
  // The file of a secret may hold the secret itself, set in the wrong place.
  const secret = isSettingName(name) ? factsOf(name).secret : 'unless-path'
  const isPath = /^(?:\.{0,2}|[a-z]:)[\\/]\S*$/i.test(text)
  if (text !== '' && (secret === 'whole' || (secret === 'unless-path' && !isPath))) return '****'
  return onOneLine(secret === 'in-url' ? maskUrl(text) : text)
}
