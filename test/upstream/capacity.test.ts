import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  connectionsForStreams,
  createCapacity,
  type Lane,
  reservedForFloatOrders,
} from '../../src/upstream/capacity.ts'

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

test.each([
  [1, 1],
  [2, 1],
  [7, 1],
  [8, 2],
  [128, 32],
])('of %i connections at most %i are for bodies that stream', (connections, streams) => {
  expect(connectionsForStreams(connections)).toBe(streams)
})

test('never more than UPSTREAM_QUEUE of a kind wait, streams fill a quarter of it, and a float order is taken while a connection is its own', () => {
  const step = fc.record({
    lane: fc.constantFrom<Lane>('float-order', 'stream', 'other'),
    begins: fc.integer({ min: 0, max: 2 }),
  })
  const sizes = { connections: fc.integer({ min: 1, max: 20 }), queue: fc.nat({ max: 9 }) }
  fc.assert(
    fc.property(fc.record(sizes), fc.array(step, { maxLength: 200 }), ({ connections, queue }, steps) => {
      const reserved = reservedForFloatOrders(connections)
      const capacity = createCapacity({ connections, reserved, queue })
      const maxStreams = connectionsForStreams(connections) + Math.ceil(queue / 4)
      const count = { 'float-order': 0, stream: 0, other: 0 }
      for (const { lane, begins } of steps) {
        const isFloatOrder = lane === 'float-order'
        if (begins > 0) {
          const takes = capacity.takes(lane)
          const roomForLane = lane !== 'stream' || count.stream < maxStreams
          if (isFloatOrder && count[lane] < reserved) expect(takes).toBe(true)
          if (roomForLane && capacity.inFlight < connections - reserved) expect(takes).toBe(true)
          if (!takes) continue
          capacity.began(lane)
          count[lane] += 1
          const orders = count['float-order']
          const others = count.stream + count.other
          // Float orders go first, so that they wait only while all is taken, and others get what orders leave.
          const othersServed = Math.min(others, connections - reserved)
          if (isFloatOrder) expect(orders).toBeLessThanOrEqual(connections - othersServed + queue)
          else
            expect(others + Math.max(0, orders - reserved)).toBeLessThanOrEqual(
              connections - reserved + queue,
            )
          expect(count.stream).toBeLessThanOrEqual(maxStreams)
        } else if (count[lane] > 0) {
          capacity.ended(lane)
          count[lane] -= 1
        }
        expect(capacity.inFlight).toBe(count['float-order'] + count.stream + count.other)
      }
    }),
    { numRuns: 1_000 },
  )
})
