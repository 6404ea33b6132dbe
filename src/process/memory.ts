import { totalmem } from 'node:os'
import { getHeapStatistics, setFlagsFromString } from 'node:v8'

export interface MemoryLimits {
  /** What V8 may take for the objects of the program. */
  heapBytes: number
  /** What the process may take in all: what its container is given, or else the machine's memory. */
  processBytes: number
}

export function memoryLimits(): MemoryLimits {
  // 0, or more than there is, where nothing limits the process.
  const constrained = process.constrainedMemory() || Number.POSITIVE_INFINITY
  return {
    heapBytes: getHeapStatistics().heap_size_limit,
    processBytes: Math.min(constrained, totalmem()),
  }
}

/** Whether a full heap leaves the process what it needs besides: code, buffers, stacks. */
export function leavesRoom({ heapBytes, processBytes }: MemoryLimits): boolean {
  return heapBytes <= processBytes * 0.75
}

export function mebibytes(bytes: number): string {
  return `${Math.round(bytes / 2 ** 20)} MiB`
}

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
  '--heap-growing-percent=300',
]
const roomBytes = 512 * 2 ** 20

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
  for (const flag of v8Flags(memoryLimits())) setFlagsFromString(flag)
}
