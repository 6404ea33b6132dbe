import { describe, expect, test } from 'vitest'
import { completeClock, systemTimers } from '../../src/clock.ts'
import { History } from '../../src/operations/history.ts'
import { slowness } from '../../src/operations/troubles.ts'
import { gatewayWith, recordingUpstream } from '../support/gateways/between.ts'
import { eventsOf, nothingCounted, statusOf } from './support.ts'

/** Half of UPSTREAM_TOTAL_TIMEOUT_MS. */
const maxMs = 7_500

/** So many minutes, with so many calls in each. */
const span = (durationMs: number, minutes: number, calls = 60) => ({
  durationMs,
  minutes,
  calls,
})

/** The minutes of a process. */
function livedThrough(...spans: ReturnType<typeof span>[]) {
  let atMs = 0
  const history = new History(completeClock({ nowMs: () => atMs }))
  history.tick(nothingCounted)
  const ended = { upstream: 'swap', traffic: 'rest', status: 200 } as const
  let minutesSlow = 0
  for (const { minutes, calls, durationMs } of spans) {
    for (let passed = 0; passed < minutes; passed += 1) {
      for (let call = 0; call < calls; call += 1)
        history.callEnded(ended, 'answered', durationMs)
      atMs += 60_000
      history.tick(nothingCounted)
      if (slowness(history.p95s.swap, maxMs) !== undefined) minutesSlow += 1
    }
  }
  /** In how many minutes it was slow, and in the last of them how slow. */
  return { minutesSlow, now: slowness(history.p95s.swap, maxMs) }
}

describe('an upstream', () => {
  test('that answers after 2.6 s instead of 0.1 s is slow, until it answers as fast as before', () => {
    const [before, slow] = [span(100, 120), span(2_600, 20)]
    const { now } = livedThrough(before, slow)
    expect(now?.p95Ms).toBeGreaterThan(2_500)
    expect(now?.usualP95Ms).toBeLessThan(120)
    expect(livedThrough(before, slow, span(100, 12)).now).toBeUndefined()
  })

  const usual = (durationMs: number) => span(durationMs, 120)
  const later = (durationMs: number) => span(durationMs, 40)
  test.each([
    ['takes twice as long and less than 500 ms more', [usual(300), later(700)]],
    ['takes 500 ms more and less than twice as long', [usual(2_000), later(2_700)]],
    ['is much faster than it was', [usual(2_600), later(100)]],
    ['is known for less than an hour', [later(2_600)]],
    ['was fast for half an hour alone', [span(100, 30), span(2_600, 25)]],
    [
      'gets two calls a minute, whatever they take',
      [usual(100), span(0, 40, 0), span(2_600, 120, 2)],
    ],
    // It is compared with its last day alone.
    ['was fast a day ago', [usual(100), span(0, 1_450, 0), later(2_600)]],
  ])('that %s is not slow', (_how, spans) => {
    expect(livedThrough(...spans).minutesSlow).toBe(0)
  })

  test('that takes half of UPSTREAM_TOTAL_TIMEOUT_MS is slow from the start, and later by what is usual', () => {
    const { minutesSlow, now } = livedThrough(later(8_000))
    expect(minutesSlow).toBe(40)
    expect(now?.p95Ms).toBeGreaterThan(7_500)
    expect(now?.usualP95Ms).toBeUndefined()
    expect(livedThrough(span(8_000, 120)).minutesSlow).toBe(60)
  })

  test('that stays slow is slow for half a day, and then as usual', () => {
    const { minutesSlow, now } = livedThrough(
      span(100, 1_440, 30),
      span(2_600, 1_440, 30),
    )
    expect(minutesSlow).toBeGreaterThan(700)
    expect(minutesSlow).toBeLessThan(740)
    expect(now).toBeUndefined()
  })
})

/** A gateway before an upstream whose answers take as long as the test says, in a time that the test lets pass. */
async function stage() {
  let aheadMs = 0
  let takesMs = 0
  const upstream = await recordingUpstream((_request, response) => {
    aheadMs += takesMs
    response.end('[]')
  })
  const steadyMs = () => performance.now() + aheadMs
  const clock = {
    nowMs: () => Date.now() + aheadMs,
    steadyMs,
    timers: { ...systemTimers, steadyMs },
  }
  const gateway = await gatewayWith({ SWAP_BASE_URL: upstream.url }, { clock })
  /** So many minutes after these calls, of which the history knows. */
  async function callAndPass(calls: number, minutes: number): Promise<void> {
    for (let call = 1; call <= calls; call += 1)
      await (await fetch(`${gateway.url}/v3/pairs`)).arrayBuffer()
    aheadMs += minutes * 60_000
    const { length } = (await statusOf(gateway)).sparklines.requests
    await expect
      .poll(async () => (await statusOf(gateway)).sparklines.requests.length)
      .toBeGreaterThanOrEqual(Math.min(90, length + minutes * 6))
  }

  const take = (ms: number) => {
    takesMs = ms
  }
  return { gateway, callAndPass, take }
}

test('a provider that is slow from the start is in /status, and an event', async () => {
  const { gateway, callAndPass, take } = await stage()
  take(8_000)
  await callAndPass(25, 2)
  const says =
    /^p95 of 10 min is \d+ ms, at least half of UPSTREAM_TOTAL_TIMEOUT_MS; what is usual is known after an hour$/
  await expect
    .poll(async () => (await statusOf(gateway)).outages)
    .toMatchObject([{ what: 'slow', isSevere: false, says: expect.stringMatching(says) }])
  expect((await eventsOf(gateway)).at(-1)?.text).toMatch(/^swap slowness: p95 of 10 min /)
})

test('a provider that has become slow is in /status, and an event', {
  timeout: 60_000,
}, async () => {
  const { gateway, callAndPass, take } = await stage()
  await callAndPass(25, 70)
  expect((await statusOf(gateway)).outages).toEqual([])
  take(2_600)
  await callAndPass(25, 1)
  await expect
    .poll(async () => (await statusOf(gateway)).outages, { timeout: 20_000 })
    .toMatchObject([
      { what: 'slow', upstream: 'swap', isSevere: false, concerned: 'none', requests: 0 },
    ])
  const [outage] = (await statusOf(gateway)).outages
  expect(outage.p95Ms).toBeGreaterThan(2_500)
  expect(outage.usualP95Ms).toBeLessThan(1_300)
  expect((await eventsOf(gateway)).at(-1)?.text).toMatch(
    /^swap slowness: p95 of 10 min is \d+ ms, usually \d+ ms$/,
  )
})
