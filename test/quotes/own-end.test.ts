import { describe, expect, it } from 'vitest'
import { silentLogger } from '../../src/process/logger.ts'
import { ownEndOf } from '../../src/quotes/own-end.ts'
import { createProviderClock } from '../../src/quotes/provider-clock.ts'

const dateMs = Date.UTC(2025, 10, 20, 15, 17, 21)
const date = new Date(dateMs).toUTCString()

function answered(rawHeaders: readonly string[]) {
  return { rawHeaders, receivedAtMs: dateMs + 60, sentSteadyMs: 1_000.4, receivedSteadyMs: 1_060.6 }
}

describe('the interval of a quote', () => {
  it('begins 1.25 s before its life by Date is over counted from the sending, and ends when it is over counted from the receiving', () => {
    expect(ownEndOf(answered(['Date', date]), dateMs + 30_000)).toEqual({ fromMs: 29_750, untilMs: 31_061 })
  })

  it.each([
    ['an age of 0', ['Date', date, 'Age', '0']],
    ['an age of 0, twice', ['Date', date, 'Age', '0', 'age', '00']],
    ['another form of Date', ['date', 'Thu, 20 Nov 2025 16:17:21 +0100']],
  ])('is read from an answer with %s', (_what, rawHeaders) => {
    expect(ownEndOf(answered(rawHeaders), dateMs + 30_000)).toEqual({ fromMs: 29_750, untilMs: 31_061 })
  })

  it.each([
    ['no Date', []],
    ['two Dates', ['Date', date, 'Date', date]],
    ['an invalid Date', ['Date', 'now']],
    ['an age', ['Date', date, 'Age', '1']],
    ['an age besides one of 0', ['Date', date, 'Age', '0', 'Age', '30']],
    ['an age that is not a number', ['Date', date, 'Age', '']],
    ['a Date more than a day before its expiry', ['Date', new Date(dateMs - 86_400_000).toUTCString()]],
  ])('is not known from an answer with %s', (_what, rawHeaders) => {
    expect(ownEndOf(answered(rawHeaders), dateMs + 30_000)).toBeUndefined()
  })

  it('lies in the past when the answer says itself that the quote is over', () => {
    expect(ownEndOf(answered(['Date', date]), dateMs - 5_000)).toEqual({ fromMs: -5_250, untilMs: -3_939 })
  })
})

/** Our wall clock and our steady one, each set by itself. */
function clocks() {
  const time = { nowMs: dateMs, steadyMs: 1_000 }
  const clock = createProviderClock({
    clock: { nowMs: () => time.nowMs, steadyMs: () => time.steadyMs },
    log: silentLogger(),
  })
  const head = { rawHeaders: ['Date', date], sentAtMs: dateMs, receivedAtMs: dateMs }
  clock.observe(head)
  const quote = {
    expiresAtMs: dateMs + 30_000,
    ownEnd: ownEndOf({ ...head, sentSteadyMs: 1_000, receivedSteadyMs: 1_000 }, dateMs + 30_000),
  }
  return { time, clock, quote }
}

describe('a quote of a provider whose clock is ours', () => {
  it('ends to the millisecond', () => {
    const { clock, quote } = clocks()
    expect([clock.serveLeftMs(quote), clock.orderLeftMs(quote)]).toEqual([30_000, 30_000])
  })

  it('is served no longer than its own interval allows while our clock is slow', () => {
    const { time, clock, quote } = clocks()
    time.steadyMs += 30_200
    time.nowMs += 20_000
    expect(clock.serveLeftMs(quote)).toBeLessThan(0)
  })

  // The steady clock of some platforms stands still while the machine sleeps.
  it('is not served after the machine slept, by the wall clock, and an order for it is sent until the provider answers', () => {
    const { time, clock, quote } = clocks()
    time.nowMs += 3_600_000
    expect(clock.serveLeftMs(quote)).toBeLessThan(0)
    expect(clock.orderLeftMs(quote)).toBe(30_000)
  })

  it('is neither served nor refused once our clock was set back, until the provider answers', () => {
    const { time, clock, quote } = clocks()
    time.nowMs -= 3_600_000
    expect(clock.serveLeftMs(quote)).toBe(Number.NEGATIVE_INFINITY)
    expect(clock.orderLeftMs(quote)).toBe(Number.POSITIVE_INFINITY)
  })

  it('without an interval, has its instant alone', () => {
    const { time, clock, quote } = clocks()
    time.steadyMs += 10
    time.nowMs += 10
    expect(clock.serveLeftMs({ expiresAtMs: quote.expiresAtMs })).toBe(29_990)
    expect(clock.orderLeftMs({ expiresAtMs: quote.expiresAtMs })).toBe(29_990)
  })
})

it('a clock without a steady one counts by its wall time', () => {
  const time = { nowMs: dateMs }
  const clock = createProviderClock({ clock: { nowMs: () => time.nowMs }, log: silentLogger() })
  const expiresAtMs = dateMs + 30_000
  const quote = { expiresAtMs, ownEnd: { fromMs: dateMs + 19_000, untilMs: dateMs + 20_000 } }
  expect([clock.serveLeftMs(quote), clock.orderLeftMs(quote)]).toEqual([19_000, 30_000])
})

it('two answers a little apart: nothing is exact for a minute, though the newest may agree with us', () => {
  const time = { nowMs: dateMs, steadyMs: 0 }
  const clock = createProviderClock({
    clock: { nowMs: () => time.nowMs, steadyMs: () => time.steadyMs },
    log: silentLogger(),
  })
  const hear = (offsetMs: number) => {
    const rawHeaders = ['Date', new Date(time.nowMs + offsetMs).toUTCString()]
    clock.observe({ rawHeaders, sentAtMs: time.nowMs, receivedAtMs: time.nowMs })
  }
  const pass = (ms: number) => {
    time.nowMs += ms
    time.steadyMs += ms
  }
  const isExactAfter = (passedMs: number, offsetMs: number) => {
    pass(passedMs)
    hear(offsetMs)
    return clock.moment().isExact
  }
  expect(isExactAfter(0, 0)).toBe(true)
  // Five seconds apart are distinguished by any Date.
  expect(isExactAfter(1_000, 5_000)).toBe(false)
  expect(isExactAfter(1_000, 0)).toBe(true)
  expect(isExactAfter(1_000, 2_000)).toBe(false)
  expect(isExactAfter(1_000, 0)).toBe(false)
  expect(isExactAfter(59_000, 0)).toBe(false)
  expect(isExactAfter(2_000, 0)).toBe(true)
})
