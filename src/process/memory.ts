import { totalmem } from 'node:os'
import { getHeapStatistics, setFlagsFromString } from 'node:v8'

export interface MemoryLimits {
  /** What V8 may take for objects. */
  heapBytes: number
  /** What the process may take: its container's memory, or the machine's. */
  processBytes: number
}

export function memoryLimits(): MemoryLimits {
  // Without a limit this is 0, or more than the machine has.
  const constrained = process.constrainedMemory() || Number.POSITIVE_INFINITY
  return {
    heapBytes: getHeapStatistics().heap_size_limit,
    processBytes: Math.min(constrained, totalmem()),
  }
}

/** Whether a full heap leaves room for code, buffers and stacks. */
export function leavesRoom({ heapBytes, processBytes }: MemoryLimits): boolean {
  return heapBytes <= processBytes * 0.75
}

export function mebibytes(bytes: number): string {
  return `${Math.round(bytes / 2 ** 20)} MiB`
}

// Without this flag V8 treats objects of requests in flight as long-lived (docs/decisions/0015).
const always = ['--no-allocation-site-pretenuring']

// Flags that spend memory to collect less often (docs/decisions/0015). Under a small limit the process would grow into
// it.
const whereThereIsRoom = [
  // The space for new objects gets its full size when it first grows. If it stays small, it is collected several times
  // as often.
  '--semi-space-growth-factor=16',
  // Without this flag, a quiet minute throws compiled code away.
  '--no-memory-reducer',
  // Without this flag, V8 keeps the heap as small as if it had just been reduced.
  '--heap-growing-percent=300',
]
const roomBytes = 512 * 2 ** 20

export function v8Flags(limits: MemoryLimits): readonly string[] {
  const hasRoom = limits.processBytes >= roomBytes && leavesRoom(limits)
  return hasRoom ? [...always, ...whereThereIsRoom] : always
}

/**
 * The flags are set from inside, so that they apply however the program was started. Node warns against changing flags
 * at run time, but each collection reads these again. An unknown flag prints a warning.
 */
export function setV8Flags(): void {
  for (const flag of v8Flags(memoryLimits())) setFlagsFromString(flag)
}
