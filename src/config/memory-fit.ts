import { leavesRoom, type MemoryLimits, mebibytes } from '../process/memory.ts'
import { fixedDefault, type SettingName, type SettingValues } from './settings.ts'

/** What an entry takes of the heap: bench/cost/memory.ts measures it. */
const entryBytes = { QUOTE_CACHE_ENTRIES: 512, LEDGER_ENTRIES: 1_024 } as const
type Fitted = keyof typeof entryBytes
const fittedNames = Object.keys(entryBytes) as Fitted[]

/** What the program itself has in the heap, before it knows any quote. */
const programBytes = 32 * 2 ** 20
/** Of the rest, for both together, where they are not set. The remainder is for requests, and for V8 to collect in. */
const defaultShare = 1 / 3
/** Of the heap: set to take more, they leave too little for the rest. */
const warnedShare = 1 / 2

const defaultEntries = (name: Fitted) => Number(fixedDefault(name))

function bytesOf(entriesOf: (name: Fitted) => number): number {
  return fittedNames.reduce((sum, name) => sum + entriesOf(name) * entryBytes[name], 0)
}

/** The same defaults for all where they fit; else each is smaller by one factor, whether the other one is set or not. */
function fittedDefault(name: Fitted, heapBytes: number): number {
  const factor = ((heapBytes - programBytes) * defaultShare) / bytesOf(defaultEntries)
  if (factor >= 1) return defaultEntries(name)
  return Math.max(100, Math.floor((defaultEntries(name) * factor) / 100) * 100)
}

/** Settings that were not set get what the heap has room for. */
export function fitDefaults(
  values: SettingValues,
  isSet: (name: SettingName) => boolean,
  { heapBytes }: MemoryLimits,
): SettingValues {
  const fitted = fittedNames
    .filter((name) => !isSet(name))
    .map((name) => [name, fittedDefault(name, heapBytes)] as const)
  return { ...values, ...Object.fromEntries(fitted) }
}

/** Why a setting that was not set has another value than its default; undefined if it has not. */
export function whyFitted(name: SettingName, { heapBytes }: MemoryLimits): string | undefined {
  const found = fittedNames.find((fitted) => fitted === name)
  if (found === undefined || fittedDefault(found, heapBytes) === defaultEntries(found)) return undefined
  return `default ${fixedDefault(found)}, less for a heap limit of ${mebibytes(heapBytes)}`
}

export function memoryWarnings(
  values: SettingValues,
  isSet: (name: SettingName) => boolean,
  limits: MemoryLimits,
): string[] {
  const warnings: string[] = []
  const heap = mebibytes(limits.heapBytes)
  const bytes = bytesOf((name) => values[name])
  if (fittedNames.some(isSet) && bytes > limits.heapBytes * warnedShare) {
    const given = fittedNames.map((name) => `${name}=${values[name]}`).join(' and ')
    warnings.push(
      `${given} take ${mebibytes(bytes)} when full, of a heap limit of ${heap}: the process may run out of memory. ` +
        'Set them lower, or give the process more memory.',
    )
  }
  if (!leavesRoom(limits)) {
    warnings.push(
      `V8 may fill ${heap} with objects, and the process may take ${mebibytes(limits.processBytes)} in all: it may be ` +
        'killed before V8 collects. Start it with node --max-old-space-size-percentage=50, or give it more memory.',
    )
  }
  return warnings
}
