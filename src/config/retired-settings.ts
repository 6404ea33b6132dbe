import { displayText } from './display.ts'
import type { SettingProblem } from './parse.ts'
import type { SettingName } from './settings.ts'

/** Settings of earlier versions, and what happens instead. They change nothing. */
export const retiredSettings = {
  FAST_LANE: 'every request goes through Express',
  LEDGER_TERMS_MS: 'quotes are remembered by their terms as long as by their ids (LEDGER_RETENTION_MS)',
} as const

export type RetiredSettingName = keyof typeof retiredSettings

/** Values of earlier versions, the value that each counts as, and why. */
const retiredValues: readonly { name: SettingName; value: string; countsAs: string; why: string }[] = [
  {
    name: 'QUOTE_PARTITION',
    value: 'prefix',
    countsAs: 'ip',
    why: 'neighbouring addresses may be in different places',
  },
]

/** Removes retired settings and replaces retired values, with one problem for each that was given. */
export function replaceRetired(given: ReadonlyMap<string, string>): {
  texts: ReadonlyMap<string, string>
  retired: Required<SettingProblem>[]
} {
  const texts = new Map(given)
  const retired: Required<SettingProblem>[] = []
  for (const [name, instead] of Object.entries(retiredSettings)) {
    const text = given.get(name)
    if (text === undefined) continue
    texts.delete(name)
    const message = `${name} was removed and changes nothing: ${instead}.`
    retired.push({ name, value: displayText(text), expected: 'not set', message })
  }
  for (const { name, value, countsAs, why } of retiredValues) {
    if (given.get(name)?.toLowerCase() !== value) continue
    texts.set(name, countsAs)
    const message = `${name}=${value} was removed and counts as ${countsAs}: ${why}.`
    retired.push({ name, value, expected: countsAs, message })
  }
  return { texts, retired }
}
