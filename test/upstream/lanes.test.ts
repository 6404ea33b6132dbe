import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  connectionsForStreams,
  type Lane,
  Lanes,
  reservedForFloatOrders,
} from '../../src/upstream/connections.ts'

test('an eighth of the connections is for float orders alone, a quarter at most for bodies that stream', () => {
  expect([1, 2, 15, 16, 65_535].map(reservedForFloatOrders)).toEqual([0, 1, 1, 2, 8_191])
  expect([1, 7, 8, 128].map(connectionsForStreams)).toEqual([1, 1, 2, 32])
})

test('no request gets more than its share or waits for what is there, and float orders go first', () => {
  const step = fc.record({
    lane: fc.constantFrom<Lane>('float-order', 'stream', 'other'),
    does: fc.constantFrom(
      'comes' as const,
      'comes' as const,
      'leaves' as const,
      'ends' as const,
    ),
    which: fc.nat(),
  })
  const sizes = {
    connections: fc.integer({ min: 1, max: 20 }),
    queue: fc.nat({ max: 9 }),
  }
  fc.assert(
    fc.property(
      fc.record(sizes),
      fc.array(step, { minLength: 60, maxLength: 200 }),
      ({ connections, queue }, steps) => {
        const reserved = reservedForFloatOrders(connections)
        const maxStreams = connectionsForStreams(connections)
        const lanes = new Lanes<{ lane: Lane }>({ connections, reserved, queue })
        let waiting: { lane: Lane }[] = []
        let held: { lane: Lane }[] = []
        const of = (requests: { lane: Lane }[], ...some: Lane[]) =>
          requests.filter((request) => some.includes(request.lane))
        for (const { lane, does, which } of steps) {
          const own = does === 'ends' ? of(held, lane) : of(waiting, lane)
          const chosen = own[which % Math.max(1, own.length)]
          if (does === 'comes') {
            const orders = of([...held, ...waiting], 'float-order').length
            const streams = of([...held, ...waiting], 'stream').length
            const takes = lanes.takes(lane)
            const roomForLane =
              lane !== 'stream' || streams < maxStreams + Math.ceil(queue / 4)
            if (lane === 'float-order' && orders < reserved) expect(takes).toBe(true)
            if (roomForLane && held.length + waiting.length < connections - reserved)
              expect(takes).toBe(true)
            if (!roomForLane) expect(takes).toBe(false)
            if (!takes) continue
            const request = { lane }
            waiting.push(request)
            lanes.wait(request)
          } else if (chosen !== undefined && does === 'leaves') {
            expect([lanes.leave(chosen), lanes.leave(chosen)]).toEqual([true, false])
            waiting = waiting.filter((one) => one !== chosen)
          } else if (chosen !== undefined) {
            lanes.release(chosen)
            held = held.filter((one) => one !== chosen)
          }
          for (let next = lanes.next(); next !== undefined; next = lanes.next()) {
            // Float orders first, and of the others who came first, unless streams hold their quarter.
            const mayHave =
              of(held, 'stream').length < maxStreams
                ? of(waiting, 'stream', 'other')
                : of(waiting, 'other')
            expect(next).toBe(of(waiting, 'float-order')[0] ?? mayHave[0])
            const served = next
            lanes.hold(served)
            waiting = waiting.filter((one) => one !== served)
            held.push(served)
          }
          expect([lanes.held, lanes.waiting]).toEqual([held.length, waiting.length])
          expect(held.length).toBeLessThanOrEqual(connections)
          expect(of(held, 'stream', 'other').length).toBeLessThanOrEqual(
            connections - reserved,
          )
          expect(of(held, 'stream').length).toBeLessThanOrEqual(maxStreams)
          expect(of(waiting, 'float-order').length).toBeLessThanOrEqual(queue)
          expect(of(waiting, 'other').length).toBeLessThanOrEqual(queue)
          // No order waits for a connection that is there for it.
          if (of(waiting, 'float-order').length > 0)
            expect(held).toHaveLength(connections)
        }
      },
    ),
    { numRuns: 400 },
  )
})
