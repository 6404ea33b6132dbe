import { totalmem } from 'node:os'
import { getHeapStatistics } from 'node:v8'

export interface MemoryLimits {
  /** What V8 may take for the objects of the program. */
  heapBytes: number
  /** What the process may take in all: what its container is given, or else the machine's memory. */
  processBytes: number
}

export function memoryLimits(): MemoryLimits {
  // 0, or more than there is, where nothing limits the process.
  const constrained = process.constrainedMemory() || Number.POSITIVE_INFINITY
  return { heapBytes: getHeapStatistics().heap_size_limit, processBytes: Math.min(constrained, totalmem()) }
}

/** Whether a full heap leaves the process what it needs besides: code, buffers, stacks. */
export function leavesRoom({ heapBytes, processBytes }: MemoryLimits): boolean {
  return heapBytes <= processBytes * 0.75
}

export function mebibytes(bytes: number): string {
  return `${Math.round(bytes / 2 ** 20)} MiB`
}
