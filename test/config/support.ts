import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { SettingsError, type SettingValue } from '../../src/config/problems.ts'

/** The settings that are refused, one for each problem; none: the start would go on. */
export function namesOf(given: Record<string, SettingValue>): string[] {
  try {
    loadConfig(given)
  } catch (error) {
    if (error instanceof SettingsError) return error.problems.map(({ name }) => name)
    throw error
  }
  return []
}

/** The path of a file with this content, for the time of one test. */
export function file(content: string | Uint8Array): string {
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-secret-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'secret')
  writeFileSync(path, content)
  return path
}
