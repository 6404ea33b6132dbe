import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type LoadOptions, loadConfig } from '../../src/config/load.ts'
import { SettingsError, type SettingValue } from '../../src/config/problems.ts'

export type Given = Record<string, SettingValue | undefined>

/** What a call with these settings throws; undefined: it would go on. */
export function errorOf(given: Given, by: LoadOptions['by'] = 'library'): SettingsError | undefined {
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

/** For the time of one test. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'quotegate-config-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** The path of a file with this content, for the time of one test. */
export function file(content: string | Uint8Array): string {
  const path = join(folder(), 'secret')
  writeFileSync(path, content)
  return path
}
