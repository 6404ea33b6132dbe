import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type LoadOptions, loadConfig } from '../../src/config/load.ts'
import { SettingsError, type SettingValue } from '../../src/config/problems.ts'
import { newFolder } from '../support/machine/new-folder.ts'

export type Given = Record<string, SettingValue | undefined>

/** What a call with these settings throws; undefined: it would go on. */
export function errorOf(
  given: Given,
  by: LoadOptions['by'] = 'library',
): SettingsError | undefined {
  try {
    loadConfig(given, { by })
  } catch (error) {
    if (error instanceof SettingsError) return error
    throw error
  }
  return undefined
}

/** The settings that are refused, one for each problem. */
export function namesOf(given: Given, by?: LoadOptions['by']): string[] {
  return (errorOf(given, by)?.problems ?? []).map(({ name }) => name)
}

export function warningsOf(given: Given, options: LoadOptions = {}): string[] {
  return loadConfig(given, options).warnings
}

/** The path of a file with this content, for the time of one test. */
export function file(content: string | Uint8Array): string {
  const path = join(newFolder(), 'secret')
  writeFileSync(path, content)
  return path
}
