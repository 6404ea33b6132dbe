import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { Patience } from '../../src/quotes/patience.ts'

beforeEach(
  () =>
    void vi.useFakeTimers({
      toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'performance'],
    }),
)
afterEach(() => void vi.useRealTimers())

const failure = new Error('no answer')

function patient(leftMs: number) {
  const ended: Error[] = []
  const patience = new Patience({ endsAtMs: performance.now() + leftMs, onEnd: (error) => ended.push(error) })
  return { patience, ended }
}

it('shares one further call after the refusal of another client, besides one after a call that failed by time', () => {
  const { patience } = patient(1_000)
  expect([patience.shareAfterRefusal(), patience.shareAfterRefusal()]).toEqual([true, false])
  expect(patience.takeFurtherCall(failure)).toBe(true)
  patience.end()
})

it('waits for one further call, until its own time is over', () => {
  const { patience, ended } = patient(1_000)
  vi.advanceTimersByTime(400)
  expect(patience.takeFurtherCall(failure)).toBe(true)
  expect(patience.takeFurtherCall(failure)).toBe(false)
  vi.advanceTimersByTime(599)
  expect(ended).toEqual([])
  vi.advanceTimersByTime(2)
  expect(ended).toEqual([failure])
})

it.each([
  [49, false],
  [50, true],
  [-1, false],
])('with %d ms left waits for a further call: %s', (leftMs, waits) => {
  expect(patient(leftMs).patience.takeFurtherCall(failure)).toBe(waits)
})

it('is not ended after it was answered', () => {
  const { patience, ended } = patient(1_000)
  patience.takeFurtherCall(failure)
  patience.end()
  vi.advanceTimersByTime(2_000)
  expect([ended, vi.getTimerCount()]).toEqual([[], 0])
})

it('counts its own time during every wait, and ends with the last failure', () => {
  const { patience, ended } = patient(1_000)
  const later = new Error('again no answer')
  expect(patience.hasTimeAfter(failure)).toBe(true)
  vi.advanceTimersByTime(600)
  expect([patience.takeFurtherCall(later), patience.takeFurtherCall(later)]).toEqual([true, false])
  vi.advanceTimersByTime(351)
  expect(patience.hasTimeAfter(failure)).toBe(false)
  vi.advanceTimersByTime(50)
  expect([ended, vi.getTimerCount()]).toEqual([[later], 0])
})
