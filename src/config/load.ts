import { tryFolder } from '../process/folders.ts'
import { type MemoryLimits, memoryLimits } from '../process/memory.ts'
import { checkTogether } from './checks.ts'
import { type Config, deepFreeze, toConfig, withDefaults } from './config.ts'
import { readText } from './files.ts'
import { type Limits, limitsOf, testLimitsName } from './limits.ts'
import { checkNames } from './names.ts'
import {
  onOneLine,
  type SettingProblem,
  SettingsError,
  type SettingValue,
} from './problems.ts'
import {
  factsOf,
  isKnownName,
  isSettingName,
  type SettingName,
  type SettingValues,
  secretsInFiles,
  settingNames,
  settings,
} from './settings.ts'
import { maskUrl } from './urls.ts'
import { readBy } from './values.ts'

export interface LoadedConfig {
  config: Config
  /** Settings that name files, and the base URLs with which they are checked. The files may be read again. */
  ofFiles: Readonly<Record<string, string>>
  warnings: string[]
  /** Each setting in effect and its source, with secrets masked. */
  sources: Readonly<
    Record<SettingName, { readonly value: string; readonly source: string }>
  >
}

export interface LoadOptions {
  /**
   * library: names that are nearly a setting's are errors, and HOST and PORT may never be used. check: names that may
   * mean a setting are errors, and the folder of STATE_DIRECTORY is tried.
   */
  by?: 'start' | 'check' | 'library'
  /** For tests: other times and sizes. */
  limits?: Partial<Limits>
  /** Default: this process's. */
  memory?: MemoryLimits
}

/** Notes what a setting should be. Only its first note is reported. */
type NoteWrong = (name: string, expected: string) => void

/** Throws a SettingsError that names every problem at once. */
export function loadConfig(
  given: Record<string, SettingValue | undefined>,
  options: LoadOptions = {},
): LoadedConfig {
  const { by = 'start', memory = memoryLimits() } = options
  const expectedOf = new Map<string, string>()
  const isWrong = (name: string) => expectedOf.has(name)
  const note: NoteWrong = (name, expected) => {
    // A wrong value has its default, which must not be reported.
    if (!isWrong(name)) expectedOf.set(name, expected)
  }
  const texts = readTexts(given, note)
  const fileOfSecret = readSecretFiles(texts, note)
  const isSet = (name: string) => texts.has(name)
  const read = readValues(texts, note)
  const { values, sources } = withDefaults(
    read,
    (name) => isSet(name) && !isWrong(name),
    memory.heapBytes,
  )
  const limits = limitsOf(options.limits ?? {}, texts.get(testLimitsName))
  if (limits === undefined)
    note(testLimitsName, 'not set; it is for the tests of quotegate itself')
  const warnings: string[] = []
  for (const found of checkTogether(values, {
    texts,
    isWrong,
    listens: by !== 'library',
    memory,
  })) {
    if (typeof found === 'string') warnings.push(found)
    else if (found) note(...found)
  }
  const unfit =
    by === 'check' && values.STATE_DIRECTORY && tryFolder(values.STATE_DIRECTORY)
  if (unfit) note('STATE_DIRECTORY', unfit)

  const problems = [...expectedOf].map(([name, expected]): SettingProblem => {
    const file = fileOfSecret.get(name)
    const [shown, right] =
      file === undefined ? [name, expected] : [file, `a file that holds ${expected}`]
    const text = texts.get(shown)
    return { name: shown, value: text && displaySetting(shown, text), expected: right }
  })
  for (const { isNear, ...problem } of checkNames(texts)) {
    if (by === 'check' || (by === 'library' && isNear)) problems.push(problem)
    else warnings.push(problem.message)
  }
  if (problems.length > 0 || limits === undefined) throw new SettingsError(problems)

  const effective = (name: SettingName) => {
    const value = values[name]
    const isText = typeof value !== 'object' || Array.isArray(value)
    const text = isText ? String(value ?? '') : (texts.get(name) ?? '')
    const file = fileOfSecret.get(name)
    const fromFile =
      file && `read from ${file}=${displaySetting(file, texts.get(file) ?? '')}`
    const source =
      fromFile ?? (isSet(name) ? 'environment' : (sources.get(name) ?? 'default'))
    return { value: displaySetting(name, text), source }
  }
  const shown = Object.fromEntries(settingNames.map((name) => [name, effective(name)]))
  return {
    config: deepFreeze(toConfig(values, limits)),
    ofFiles: ofFilesIn(texts),
    warnings,
    sources: shown as LoadedConfig['sources'],
  }
}

function ofFilesIn(texts: ReadonlyMap<string, string>): Record<string, string> {
  const isOfFile = (name: string) => isKnownName(name) && /_(?:FILE|BASE_URL)$/.test(name)
  return Object.fromEntries([...texts].filter(([name]) => isOfFile(name)))
}

/** The settings by name, trimmed, without blank ones. */
function readTexts(given: Record<string, unknown>, note: NoteWrong): Map<string, string> {
  const texts = new Map<string, string>()
  for (const [name, value] of Object.entries(given)) {
    // An array becomes a comma-separated list.
    const isReadable = [value ?? '']
      .flat()
      .every((one) => /^(string|number|boolean)$/.test(typeof one))
    const text = isReadable ? String(value ?? '').trim() : `(${typeof value})`
    if (text !== '') texts.set(name, text)
    if (!isReadable && isKnownName(name))
      note(name, 'a string, a number, a boolean or an array of those')
  }
  return texts
}

/**
 * Any secret may be in a file, named by the secret's name with _FILE behind it. Adds these secrets to the texts, and
 * returns for each secret the setting of its file.
 */
function readSecretFiles(texts: Map<string, string>, note: NoteWrong) {
  const fileOfSecret = new Map<string, string>()
  for (const [name, secret] of Object.entries(secretsInFiles)) {
    const path = texts.get(name)
    if (path === undefined) continue
    const { data: text = '', error } = readBy(readText).safeParse(path)
    if (texts.has(secret))
      note(name, `not set, because ${secret} is set: keep one of the two`)
    else if (error) note(name, error.issues[0]?.message ?? '')
    else if (text.trim() === '')
      note(name, `a file that holds ${secret}; this file is empty`)
    else {
      texts.set(secret, text.replace(/\r?\n$/, ''))
      fileOfSecret.set(secret, name)
    }
  }
  return fileOfSecret
}

/** Notes wrong values, which get their defaults. */
function readValues(texts: ReadonlyMap<string, string>, note: NoteWrong): SettingValues {
  const { data, error } = settings.safeParse(Object.fromEntries(texts))
  if (error === undefined) return data
  const wrong = new Set<unknown>()
  for (const { path, message } of error.issues) {
    note(String(path[0]), message)
    wrong.add(path[0])
  }
  return readValues(new Map([...texts].filter(([name]) => !wrong.has(name))), note)
}

/** A setting's value for a terminal or a log, without secrets. */
function displaySetting(name: string, text: string): string {
  // A setting for a secret's file may hold the secret itself by mistake.
  const secret = isSettingName(name) ? factsOf(name).secret : 'unless-path'
  // A base64 secret may begin with a slash.
  const isPath =
    /^(?:\.{0,2}|[a-z]:)[\\/]\S*$/i.test(text) && /\.|[\\/].*[\\/]/.test(text)
  if (text !== '' && (secret === 'whole' || (secret === 'unless-path' && !isPath)))
    return '****'
  return onOneLine(secret === 'in-url' ? maskUrl(text) : text)
}
