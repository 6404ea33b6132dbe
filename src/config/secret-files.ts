import type { SettingProblem } from './parse.ts'
import { type ReadFile, readText } from './read-file.ts'
import type { SettingName } from './settings.ts'

/** Secrets that may be in a file, each with the setting that names the file. */
const secretFiles = [
  ['SWAP_AUTHORIZATION', 'SWAP_AUTHORIZATION_FILE'],
  ['ADMIN_TOKEN', 'ADMIN_TOKEN_FILE'],
  ['VALKEY_URL', 'VALKEY_URL_FILE'],
] as const satisfies readonly (readonly [SettingName, SettingName])[]

export interface SecretsRead {
  /** The settings as given, with the secrets that were read from files. */
  texts: ReadonlyMap<string, string>
  /** The setting that named the file, by the name of its secret. */
  fileSettingOf: ReadonlyMap<string, SettingName>
  problems: { name: SettingName; expected: string }[]
}

export function readSecretFiles(given: ReadonlyMap<string, string>, readFile: ReadFile): SecretsRead {
  const texts = new Map(given)
  const fileSettingOf = new Map<string, SettingName>()
  const problems: SecretsRead['problems'] = []
  for (const [secret, name] of secretFiles) {
    const path = given.get(name)
    if (path === undefined) continue
    if (given.has(secret)) {
      problems.push({ name, expected: `not set, because ${secret} is set: keep one of the two` })
      continue
    }
    const file = readText(path, readFile)
    if ('expected' in file) {
      problems.push({ name, expected: file.expected })
      continue
    }
    const text = file.text.replace(/\r?\n$/, '')
    if (text.trim() === '') {
      problems.push({ name, expected: `a file that holds ${secret}; this file is empty` })
      continue
    }
    texts.set(secret, text)
    fileSettingOf.set(secret, name)
  }
  return { texts, fileSettingOf, problems }
}

/** A problem of a secret that was read from a file is a problem of that file. */
export function asProblemOfFile(
  problem: SettingProblem,
  { texts, fileSettingOf }: SecretsRead,
): SettingProblem {
  const name = fileSettingOf.get(problem.name)
  if (name === undefined) return problem
  return { name, value: texts.get(name), expected: `a file that holds ${problem.expected}` }
}
