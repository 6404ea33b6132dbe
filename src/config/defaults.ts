import { type MemoryLimits, mebibytes } from '../process/memory.ts'
import { fixedDefault, type SettingName, type SettingValues } from './settings.ts'

/** What an entry takes of the heap, rounded up: bench/cost/memory.ts measures it. */
const entryBytes = { QUOTE_CACHE_ENTRIES: 640, LEDGER_ENTRIES: 1_024 } as const
type Fitted = keyof typeof entryBytes
export const fittedNames = Object.keys(entryBytes) as Fitted[]

/** What the program itself has in the heap under load, before it keeps any quote. */
const programBytes = 40 * 2 ** 20
/** Of the rest, for both together, where they are not set. The remainder is for requests, and for V8 to collect in. */
const defaultShare = 1 / 3

export function bytesOfEntries(entriesOf: (name: Fitted) => number): number {
  return fittedNames.reduce((sum, name) => sum + entriesOf(name) * entryBytes[name], 0)
}

/** Defaults that depend on other settings or on the memory, each with where it comes from. */
function dependentDefaults(values: SettingValues, { heapBytes }: MemoryLimits) {
  const room = (heapBytes - programBytes) * defaultShare
  const share = room / bytesOfEntries((name) => Number(fixedDefault(name)))
  // The same for all where they fit; else each is smaller by one factor, whether the other one is set or not.
  const entries = (name: Fitted) => {
    const fixed = Number(fixedDefault(name))
    if (share >= 1) return { value: fixed, source: 'default' }
    const value = Math.max(100, Math.floor((fixed * share) / 100) * 100)
    return { value, source: `default ${fixed}, less for a heap limit of ${mebibytes(heapBytes)}` }
  }
  const payments = values.SWAP_BASE_URL === 'sandbox' ? 'sandbox' : undefined
  return {
    ADMIN_HOST: { value: values.HOST, source: 'derived from HOST' },
    PAYMENTS_BASE_URL: { value: payments, source: 'derived from SWAP_BASE_URL' },
    DRAIN_DELAY_MS: {
      value: values.NODE_ENV === 'production' ? 5_000 : 0,
      source: 'derived from NODE_ENV',
    },
    QUOTE_CACHE_ENTRIES: entries('QUOTE_CACHE_ENTRIES'),
    LEDGER_ENTRIES: entries('LEDGER_ENTRIES'),
  } as const satisfies Partial<Record<SettingName, unknown>>
}

/** With those defaults in place of what is not set, or wrong. */
export type CompleteValues = SettingValues & { ADMIN_HOST: string; DRAIN_DELAY_MS: number }

export function withDefaults(
  values: SettingValues,
  isGiven: (name: string) => boolean,
  memory: MemoryLimits,
): { values: CompleteValues; sources: ReadonlyMap<string, string> } {
  const unset = Object.entries(dependentDefaults(values, memory)).filter(([name]) => !isGiven(name))
  const defaults = Object.fromEntries(unset.map(([name, { value }]) => [name, value]))
  return {
    values: { ...values, ...defaults } as CompleteValues,
    sources: new Map(unset.map(([name, { source }]) => [name, source])),
  }
}
