import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Exchange, type UpstreamTimes } from '../../src/server/exchange.ts'

function timeSpent(
  of: Pick<Exchange, 'startedAtMs' | 'times' | 'missed'>,
  durationMs: number,
) {
  return Exchange.prototype.timeSpent.call(of as Exchange, durationMs)
}

const aTime = fc.integer({ min: 0, max: 30_000 })
const perhaps = fc.option(aTime, { nil: undefined })

test('the parts of a request make up all of its time, and none is negative', () => {
  fc.assert(
    fc.property(fc.tuple(aTime, aTime, perhaps, perhaps, perhaps, aTime), (spans) => {
      const [beforeMs, queueMs, answerMs, transferMs, settledMs, restMs] = spans
      const askedAtMs = 1_000 + beforeMs
      const sentAtMs = answerMs === undefined ? undefined : askedAtMs + queueMs
      const beganAtMs =
        sentAtMs === undefined || transferMs === undefined
          ? undefined
          : sentAtMs + (answerMs ?? 0)
      const lastMs = beganAtMs ?? sentAtMs ?? askedAtMs
      const settledAtMs = settledMs === undefined ? undefined : lastMs + settledMs
      const times = { askedAtMs, sentAtMs, beganAtMs, settledAtMs } as UpstreamTimes
      // The call may go on after its caller has left.
      const durationMs = lastMs + restMs - 1_000
      const spent = timeSpent({ startedAtMs: 1_000, times, missed: true }, durationMs)
      const parts = [spent.queueMs, spent.upstreamMs, spent.transferMs, spent.ownMs].map(
        (part) => part ?? 0,
      )
      expect(Math.min(...parts)).toBeGreaterThanOrEqual(0)
      expect(parts.reduce((sum, part) => sum + part)).toBe(durationMs)
      expect(spent.upstreamMs === null).toBe(sentAtMs === undefined)
    }),
  )
})

test("a request without an upstream call has only the gateway's time, unless it joined another request's call", () => {
  const asked = { startedAtMs: 0, times: undefined }
  const none = { queueMs: null, upstreamMs: null, transferMs: null }
  expect(timeSpent({ ...asked, missed: false }, 5)).toEqual({ ...none, ownMs: 5 })
  expect(timeSpent({ ...asked, missed: true }, 5)).toEqual({ ...none, ownMs: null })
})
