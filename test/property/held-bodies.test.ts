import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Events } from '../../src/events.ts'
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
const bytes = fc.nat({ max: 2 * maxHeld })

function bodiesThatHold(judged: number, others: number): RequestBodies {
  const bodies = new RequestBodies({
    maxHeldBytes: maxHeld,
    idleTimeoutMs: 1_000,
    events: new Events(),
  })
  bodies.hold(judged, true)
  bodies.hold(others, false)
  return bodies
}

test('other bodies never take the half of the bound that is for orders', () => {
  fc.assert(
    fc.property(fc.nat({ max: maxHeld / 2 }), bytes, (judged, others) => {
      expect(bodiesThatHold(judged, others).isFull(true)).toBe(false)
    }),
  )
})

test('orders alone may have all of the bound, and not a byte more', () => {
  expect([maxHeld, maxHeld + 1].map((judged) => bodiesThatHold(judged, 0).isFull(true))).toEqual([
    false,
    true,
  ])
})

test('others are held no longer once half of the bound is taken, by whatever', () => {
  fc.assert(
    fc.property(bytes, bytes, (judged, others) => {
      expect(bodiesThatHold(judged, others).isFull(false)).toBe(judged + others > maxHeld / 2)
    }),
  )
})

test('where orders are let go, at least the bound is held', () => {
  fc.assert(
    fc.property(bytes, bytes, (judged, others) => {
      const bodies = bodiesThatHold(judged, others)
      if (bodies.isFull(true)) expect(bodies.heldBytes).toBeGreaterThan(maxHeld)
    }),
  )
})
