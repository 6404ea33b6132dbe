import { tryFolder } from '../process/folders.ts'
import { type MemoryLimits, memoryLimits } from '../process/memory.ts'
import { checkTogether } from './checks.ts'
import { type Config, deepFreeze, toConfig } from './config.ts'
import { withDefaults } from './defaults.ts'
import { type ReadFile, readSecretFiles, readSystemFile, readTlsFiles } from './files.ts'
import { type Limits, limitsOf, testLimitsName } from './limits.ts'
import { checkNames } from './names.ts'
import { type Note, onOneLine, type SettingProblem, SettingsError, type SettingValue } from './problems.ts'
import {
  factsOf,
  isKnownName,
  isSettingName,
  type SettingName,
  type SettingValues,
  settingNames,
  settings,
} from './settings.ts'
import { maskUrl } from './urls.ts'

/** A setting in effect, as it may be shown: secrets are masked. */
interface EffectiveSetting {
  readonly value: string
  readonly source: string
}

export interface LoadedConfig {
  config: Config
  warnings: string[]
  sources: Readonly<Record<SettingName, EffectiveSetting>>
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
  /** Reads the files that settings name. From the file system, if not given. */
  readFile?: ReadFile
  /** Whether the folder of STATE_DIRECTORY is tried. If not, it is not touched. */
  tryDirectory?: boolean
}

/** The one way from settings to a Config. Throws a SettingsError that names every problem at once. */
export function loadConfig(
  given: Record<string, SettingValue | undefined>,
  {
    nearMisses = 'error',
    unknownNames = 'warn',
    limits: overrides = {},
    listens = true,
    memory = memoryLimits(),
    readFile = readSystemFile,
    tryDirectory = false,
  }: LoadOptions = {},
): LoadedConfig {
  const expectedOf = new Map<string, string>()
  const isWrong = (name: string) => expectedOf.has(name)
  const note: Note = (name, expected) => {
    // Once a value is wrong, its default is in place, and nothing is said of that default.
    if (!isWrong(name)) expectedOf.set(name, expected)
  }
  const texts = readTexts(given, note)
  const gone = withoutPrefixes(texts)
  const fileOfSecret = readSecretFiles(texts, readFile, note)
  const isSet = (name: string) => texts.has(name)
  const read = readValues(texts, note)
  const { values, sources } = withDefaults(read, (name) => isSet(name) && !isWrong(name), memory)
  const limits = limitsOf(overrides, texts.get(testLimitsName))
  if (limits === undefined) note(testLimitsName, 'not set; it is for the tests of quotegate itself')
  const tls = readTlsFiles(values, readFile, note)
  const warnings: string[] = []
  for (const found of checkTogether(values, { isSet, isWrong, listens, memory })) {
    if (typeof found === 'string') warnings.push(found)
    else if (found) note(...found)
  }
  const unfit = tryDirectory && values.STATE_DIRECTORY && tryFolder(values.STATE_DIRECTORY)
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

  const effective = (name: SettingName): EffectiveSetting => {
    const value = displaySetting(name, textOf(values[name]))
    if (!isSet(name)) return { value, source: sources.get(name) ?? 'default' }
    const file = fileOfSecret.get(name)
    const source = file ? `read from ${file}=${displaySetting(file, texts.get(file) ?? '')}` : 'environment'
    return { value, source }
  }
  return {
    config: deepFreeze(toConfig(values, limits, tls)),
    warnings,
    sources: deepFreeze(
      Object.fromEntries(settingNames.map((name) => [name, effective(name)])) as LoadedConfig['sources'],
    ),
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

/** Reads each setting on its own. A wrong one is noted, and has its default. */
function readValues(texts: ReadonlyMap<string, string>, note: Note): SettingValues {
  const written = new Map<string, string | undefined>(settingNames.map((name) => [name, texts.get(name)]))
  const result = settings.safeParse(Object.fromEntries(written))
  if (result.success) return result.data
  for (const { path, message } of result.error.issues) {
    note(String(path[0]), message)
    written.delete(String(path[0]))
  }
  return settings.parse(Object.fromEntries(written))
}

function textOf(value: SettingValues[SettingName]): string {
  return typeof value === 'object' && 'url' in value ? value.url : String(value ?? '')
}

/** The value of a setting, fit for a terminal or a log, without secrets. */
function displaySetting(name: string, text: string): string {
  // The file of a secret may hold the secret itself, set in the wrong place.
  const secret = isSettingName(name) ? factsOf(name).secret : 'unless-path'
  const isPath = /^(?:\.{0,2}|[a-z]:)[\\/]\S*$/i.test(text)
  if (text !== '' && (secret === 'whole' || (secret === 'unless-path' && !isPath))) return '****'
  return onOneLine(secret === 'in-url' ? maskUrl(text) : text)
}
