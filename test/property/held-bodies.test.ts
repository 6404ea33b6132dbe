import fc from 'fast-check'
import { expect, test } from 'vitest'
import { maxHeldBytes, RequestBodies } from '../../src/upstream/body.ts'

test.each([
  [64, 8],
  [128, 8],
  [512, 32],
  [4_096, 256],
])('of a heap limit of %i MiB unfinished bodies may hold %i MiB', (heapMiB, heldMiB) => {
  expect(maxHeldBytes({ heapBytes: heapMiB * 2 ** 20 })).toBe(heldMiB * 2 ** 20)
})

const maxHeld = 1_000
const half = maxHeld / 2
const bytes = fc.oneof(
  fc.nat({ max: 2 * maxHeld }),
  fc.constantFrom(0, half, half + 1, maxHeld, maxHeld + 1),
)

function bodiesThatHold(judged: number, others: number): RequestBodies {
  const bodies = new RequestBodies({
    maxHeldBytes: maxHeld,
    idleTimeoutMs: 1_000,
  })
  bodies.hold(judged, true)
  bodies.hold(others, false)
  return bodies
}

test('orders may have all of the bound, and not a byte more, others half of it; that half, other bodies never take from orders', () => {
  fc.assert(
    fc.property(bytes, bytes, (judged, others) => {
      const bodies = bodiesThatHold(judged, others)
      const isFull = judged + Math.min(others, half) > maxHeld
      expect(bodies.isFull(true)).toBe(isFull)
      expect(bodies.isFull(false)).toBe(judged + others > half)
    }),
  )
})
