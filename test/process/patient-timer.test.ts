import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { PatientTimer } from '../../src/clock.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

// Node leaves an Immediate that has run linked to those of the same turn, and with them to their arguments: here, what
// Node's server hands to its own.
test('a timer that has called back keeps nothing of the other callbacks of its turn alive', async () => {
  let timer: PatientTimer | undefined
  const neighbour = await new Promise<WeakRef<object>>((resolve) => {
    timer = new PatientTimer(1, () => resolve(other))
    const argument = { of: 'another request' }
    const other = new WeakRef(argument)
    // Both timers are due in one turn, and so are their Immediates.
    setTimeout((given: object) => setImmediate((_request: object) => {}, given), 1, argument)
    const dueAtMs = performance.now() + 5
    while (performance.now() < dueAtMs);
  })
  await new Promise((resolve) => setTimeout(resolve, 5))
  collectGarbage()
  expect(neighbour.deref()).toBeUndefined()
  timer?.clear()
})
