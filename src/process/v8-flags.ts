import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { leavesRoom, type MemoryLimits, memoryLimits } from './memory.ts'

// Requests in flight during a collection are not long-lived objects (docs/decisions/0015).
const always = ['--no-allocation-site-pretenuring']

// These spend memory to collect less often (docs/decisions/0015). Under a small limit they make the process grow into it.
const whereThereIsRoom = [
  // The space for new objects gets its full size when it first grows. If it stays small, it is collected several times
  // as often.
  '--semi-space-growth-factor=16',
  // Without this flag, a quiet minute throws compiled code away,
  '--no-memory-reducer',
  // and without this one, V8 keeps the heap as small as if it had just been reduced.
  growth(300),
]
const roomBytes = 512 * 2 ** 20
const lookEveryMs = 1_000

/** By how much memory in use may grow until the next full collection. Buffers outside the heap count too. */
function growth(percent: number): string {
  return `--heap-growing-percent=${percent}`
}

/** The flags of V8 that suit a gateway with so much memory. */
export function v8Flags(limits: MemoryLimits): readonly string[] {
  const hasRoom = limits.processBytes >= roomBytes && leavesRoom(limits)
  return hasRoom ? [...always, ...whereThereIsRoom] : always
}

/**
 * Sets V8's flags from inside, so that they apply however the program was started. Node warns against changing flags at
 * run time, but each collection reads these again. A V8 that does not know one of them prints a warning and goes on.
 */
export function setV8Flags(): void {
  const limits = memoryLimits()
  const flags = v8Flags(limits)
  for (const flag of flags) setFlagsFromString(flag)
  if (flags.includes(growth(300))) boundGrowth(limits)
}

/** The flag of V8 for a process that uses so much memory: what is large may double and no more, or it could reach its limit. */
export function growthFlag(usedBytes: number, { heapBytes }: Pick<MemoryLimits, 'heapBytes'>): string {
  return growth(usedBytes > heapBytes / 4 ? 100 : 300)
}

// Under attack, buffers of refused bodies grew to three times the heap limit before V8 collected them.
function boundGrowth(limits: MemoryLimits): void {
  let current = growth(300)
  const look = () => {
    const { used_heap_size: heap, external_memory: buffers } = getHeapStatistics()
    const next = growthFlag(heap + buffers, limits)
    if (next !== current) setFlagsFromString(next)
    current = next
  }
  setInterval(look, lookEveryMs).unref()
}
