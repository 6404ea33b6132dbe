import { setFlagsFromString } from 'node:v8'

const flags = [
  // Requests that are under way when a collection comes are not what will grow old (docs/decisions/0015).
  '--no-allocation-site-pretenuring',
  // New objects get all of their space when it first grows; else it stays small and is collected several times as
  // often (0016, as the two below).
  '--semi-space-growth-factor=16',
  // A quiet minute does not throw away what was compiled,
  '--no-memory-reducer',
  // and without it V8 would hold the heap as small as if it had just been reduced.
  '--heap-growing-percent=300',
]

/**
 * Has V8 collect garbage as suits a gateway, however the program was started. Node warns of flags that change while it
 * runs; these are read by each collection anew, and a V8 that no longer knows one says so and goes on.
 */
export function tuneCollector(): void {
  for (const flag of flags) setFlagsFromString(flag)
}
