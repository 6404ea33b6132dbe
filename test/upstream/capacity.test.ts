import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createCapacity, reservedForFloatOrders } from '../../src/upstream/capacity.ts'

test.each([
  [1, 0],
  [2, 1],
  [3, 1],
  [15, 1],
  [16, 2],
  [128, 16],
  [65_535, 8_191],
])('of %i connections %i are for float orders alone', (connections, reserved) => {
  expect(reservedForFloatOrders(connections)).toBe(reserved)
})

test('never more than UPSTREAM_QUEUE of a kind wait, and a float order is taken while a connection is its own', () => {
  const step = fc.record({ isFloatOrder: fc.boolean(), begins: fc.integer({ min: 0, max: 2 }) })
  const sizes = { connections: fc.integer({ min: 1, max: 20 }), queue: fc.nat({ max: 5 }) }
  fc.assert(
    fc.property(fc.record(sizes), fc.array(step, { maxLength: 200 }), ({ connections, queue }, steps) => {
      const reserved = reservedForFloatOrders(connections)
      const capacity = createCapacity({ connections, reserved, queue })
      let orders = 0
      let others = 0
      for (const { isFloatOrder, begins } of steps) {
        if (begins > 0) {
          const takes = capacity.takes(isFloatOrder)
          if (isFloatOrder && orders < reserved) expect(takes).toBe(true)
          if (orders + others < connections - reserved) expect(takes).toBe(true)
          if (!takes) continue
          capacity.began(isFloatOrder)
          if (isFloatOrder) orders += 1
          else others += 1
          // Float orders go first, so that they wait only while all is taken, and others get what orders leave.
          const othersServed = Math.min(others, connections - reserved)
          if (isFloatOrder) expect(orders).toBeLessThanOrEqual(connections - othersServed + queue)
          else
            expect(others + Math.max(0, orders - reserved)).toBeLessThanOrEqual(
              connections - reserved + queue,
            )
        } else if (isFloatOrder ? orders > 0 : others > 0) {
          capacity.ended(isFloatOrder)
          if (isFloatOrder) orders -= 1
          else others -= 1
        }
        expect(capacity.inFlight).toBe(orders + others)
      }
    }),
    { numRuns: 1_000 },
  )
})
