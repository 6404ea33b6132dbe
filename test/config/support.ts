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
