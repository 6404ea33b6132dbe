import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createRetryBudget } from '../../src/upstream/retry-budget.ts'

function budgetAt(startMs = 1_000_000) {
  let nowMs = startMs
  const budget = createRetryBudget(() => nowMs)
  return {
    advance: (ms: number) => {
      nowMs += ms
    },
    requests(count: number) {
      for (let index = 0; index < count; index += 1) budget.countRequest(nowMs)
    },
    taken(tries: number): number {
      return Array.from({ length: tries }, () => budget.take()).filter(Boolean).length
    },
  }
}

test.each([
  [0, 3],
  [5, 3],
  [30, 3],
  [50, 5],
  [200, 20],
  [1_000, 100],
])('of %d requests in ten seconds %d may be sent again', (requests, retries) => {
  const budget = budgetAt()
  budget.requests(requests)
  expect(budget.taken(1_000)).toBe(retries)
})

test('used budget is available again after ten seconds, and not within nine', () => {
  const budget = budgetAt()
  expect(budget.taken(5)).toBe(3)
  budget.advance(9_000)
  expect(budget.taken(5)).toBe(0)
  budget.advance(1_000)
  expect(budget.taken(5)).toBe(3)
})

test('requests of more than ten seconds ago allow no retry', () => {
  const budget = budgetAt()
  budget.requests(1_000)
  budget.advance(10_000)
  expect(budget.taken(100)).toBe(3)
})

test('after hours without requests the budget is as at startup', () => {
  const budget = budgetAt()
  budget.requests(1_000)
  expect(budget.taken(100)).toBe(100)
  budget.advance(7_200_000.5)
  expect(budget.taken(100)).toBe(3)
})

test('over any ten seconds no more than a tenth, or three, are sent again', () => {
  const event = fc.record({
    afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 4_000 })),
    requests: fc.integer({ min: 0, max: 60 }),
    tries: fc.integer({ min: 0, max: 20 }),
  })
  fc.assert(
    fc.property(
      fc.integer({ min: 1_000, max: 9_999_999 }),
      fc.array(event, { maxLength: 40 }),
      (start, events) => {
        const budget = budgetAt(start)
        let nowMs = start
        const log: { atMs: number; requests: number; retries: number }[] = []
        for (const { afterMs, requests, tries } of events) {
          nowMs += afterMs
          budget.advance(afterMs)
          budget.requests(requests)
          log.push({ atMs: nowMs, requests, retries: budget.taken(tries) })
          // The window is made of whole seconds, the present one among them.
          const firstMs = (Math.floor(nowMs / 1_000) - 9) * 1_000
          const recent = log.filter(({ atMs }) => atMs >= firstMs)
          const sum = (pick: 'requests' | 'retries') =>
            recent.reduce((total, entry) => total + entry[pick], 0)
          const newest = recent.at(-1)
          if (newest && newest.retries > 0) {
            expect(sum('retries')).toBeLessThanOrEqual(Math.max(3, Math.ceil(sum('requests') * 0.1)))
          }
          if (newest && newest.retries < tries) {
            expect(sum('retries')).toBeGreaterThanOrEqual(Math.max(3, sum('requests') * 0.1))
          }
        }
      },
    ),
    { numRuns: 1_000 },
  )
})
