import { setFlagsFromString } from 'node:v8'

const flags = [
  // Requests in flight during a collection are not long-lived objects (docs/decisions/0015).
  '--no-allocation-site-pretenuring',
  // The space for new objects gets its full size when it first grows. If it stays small, it is collected several times
  // as often (docs/decisions/0016, as the next two).
  '--semi-space-growth-factor=16',
  // Without this flag, a quiet minute throws compiled code away,
  '--no-memory-reducer',
  // and without this one, V8 keeps the heap as small as if it had just been reduced.
  '--heap-growing-percent=300',
]

/**
 * Sets V8's flags from inside, so that they apply however the program was started. Node warns against changing flags at
 * run time, but each collection reads these again. A V8 that does not know one of them prints a warning and goes on.
 */
export function setV8Flags(): void {
  for (const flag of flags) setFlagsFromString(flag)
}
