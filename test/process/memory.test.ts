import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { PatientTimer } from '../../src/clock.ts'
import { v8Flags } from '../../src/process/memory.ts'

const grows = [
  '--semi-space-growth-factor=16',
  '--no-memory-reducer',
  '--heap-growing-percent=300',
]

test.each([
  // In a container of 128 MiB the flags that let V8 grow made the process grow into the limit after 9,000 requests.
  [67, 128, []],
  [259, 511, []],
  [259, 512, grows],
  [4_144, 24_105, grows],
  // A full heap leaves no room for the rest.
  [1_000, 1_024, []],
])(
  'with a heap limit of %i MiB in %i MiB V8 gets the flags to grow: %j',
  (heapMiB, processMiB, flags) => {
    const limits = { heapBytes: heapMiB * 2 ** 20, processBytes: processMiB * 2 ** 20 }
    expect(v8Flags(limits)).toEqual(['--no-allocation-site-pretenuring', ...flags])
  },
)

// Node leaves an Immediate that has run linked to those of the same turn, and with them to their arguments: here, what
// Node's server hands to its own.
test('a timer that has called back keeps nothing of the other callbacks of its turn alive', async () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  let timer: PatientTimer | undefined
  const neighbour = await new Promise<WeakRef<object>>((resolve) => {
    timer = new PatientTimer(1, () => resolve(other))
    const argument = { of: 'another request' }
    const other = new WeakRef(argument)
    // Both timers are due in one turn, and so are their Immediates.
    setTimeout(
      (given: object) => setImmediate((_request: object) => {}, given),
      1,
      argument,
    )
    const dueAtMs = performance.now() + 5
    while (performance.now() < dueAtMs);
  })
  await new Promise((resolve) => setTimeout(resolve, 5))
  collectGarbage()
  expect(neighbour.deref()).toBeUndefined()
  timer?.clear()
})
