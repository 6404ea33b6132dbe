import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { completeClock } from '../../src/clock.ts'
import { type Counts, History, sums } from '../../src/operations/history.ts'
import type { Outage } from '../../src/operations/schemas.ts'
import { slowness } from '../../src/operations/troubles.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { ask } from './support.ts'

const nothing: Counts = {
  sums: Object.fromEntries(sums.map((name) => [name, 0])) as Counts['sums'],
  inFlight: 0,
}

/** The minutes of a process, each with as many calls as are given, and of one duration. */
function livedThrough(...spans: { minutes: number; calls: number; durationMs: number }[]) {
  let atMs = 0
  const history = new History(completeClock({ nowMs: () => atMs }))
  history.tick(nothing)
  const ended = { upstream: 'swap', traffic: 'rest', status: 200 } as const
  let minutesSlow = 0
  for (const { minutes, calls, durationMs } of spans) {
    for (let passed = 0; passed < minutes; passed += 1) {
      for (let call = 0; call < calls; call += 1) history.callEnded(ended, 'answered', durationMs)
      atMs += 60_000
      history.tick(nothing)
      if (slowness(history.p95sOf('swap')) !== undefined) minutesSlow += 1
    }
  }
  /** In how many minutes it was slow, and in the last of them how slow. */
  return { minutesSlow, now: slowness(history.p95sOf('swap')) }
}

describe('an upstream', () => {
  test('that answers after 2.6 s instead of 0.1 s is slow, until it answers as fast as before', () => {
    const before = { minutes: 120, calls: 60, durationMs: 100 }
    const slow = { minutes: 20, calls: 60, durationMs: 2_600 }
    const { now } = livedThrough(before, slow)
    expect(now?.p95Ms).toBeGreaterThan(2_500)
    expect(now?.usualP95Ms).toBeLessThan(120)
    expect(livedThrough(before, slow, { ...before, minutes: 12 }).now).toBeUndefined()
  })

  test.each([
    ['takes twice as long and less than 500 ms more', 300, 700],
    ['takes 500 ms more and less than twice as long', 2_000, 2_700],
    ['is much faster than it was', 2_600, 100],
  ])('that %s is not slow', (_how, durationMs, laterMs) => {
    const { minutesSlow } = livedThrough(
      { minutes: 120, calls: 60, durationMs },
      { minutes: 30, calls: 60, durationMs: laterMs },
    )
    expect(minutesSlow).toBe(0)
  })

  test('of which less than an hour is known is not slow', () => {
    const slow = { minutes: 40, calls: 60, durationMs: 2_600 }
    expect(livedThrough(slow).minutesSlow).toBe(0)
    expect(livedThrough({ minutes: 15, calls: 60, durationMs: 100 }, slow).minutesSlow).toBe(0)
  })

  test('that gets two calls a minute is not slow, whatever they take', () => {
    const { minutesSlow } = livedThrough(
      { minutes: 120, calls: 60, durationMs: 100 },
      { minutes: 10, calls: 0, durationMs: 0 },
      { minutes: 60, calls: 2, durationMs: 2_600 },
    )
    expect(minutesSlow).toBe(0)
  })

  test('that stays slow is slow for half a day, and then as usual', () => {
    const { minutesSlow, now } = livedThrough(
      { minutes: 1_440, calls: 30, durationMs: 100 },
      { minutes: 1_440, calls: 30, durationMs: 2_600 },
    )
    expect(minutesSlow).toBeGreaterThan(700)
    expect(minutesSlow).toBeLessThan(740)
    expect(now).toBeUndefined()
  })

  test('is compared with its last day alone', () => {
    const slow = { minutes: 30, calls: 30, durationMs: 2_600 }
    const dayOff = { minutes: 1_450, calls: 0, durationMs: 0 }
    expect(livedThrough({ minutes: 120, calls: 30, durationMs: 100 }, dayOff, slow).minutesSlow).toBe(0)
  })
})

test('a provider that has become slow is in /status, and an event', { timeout: 60_000 }, async () => {
  let delayMs = 0
  const upstream = await recordingUpstream(async (_request, response) => {
    await sleep(delayMs)
    response.end('[]')
  })
  let aheadMs = 0
  const gateway = await startGateway(
    { SWAP_BASE_URL: upstream.url },
    { clock: { nowMs: () => Date.now() + aheadMs, steadyMs: () => performance.now() + aheadMs } },
  )
  onTestFinished(() => gateway.close())
  const json = async (path: string) => JSON.parse((await ask(gateway.operationsUrl + path)).body)
  const outages = async () => (await json('/status')).outages as Outage[]

  async function call(times: number): Promise<void> {
    const calls = Array.from({ length: times }, () => fetch(`${gateway.url}/v3/pairs`))
    for (const answer of await Promise.all(calls)) await answer.arrayBuffer()
  }
  async function pass(minutes: number): Promise<void> {
    const { last } = (await json('/history')).minutes
    aheadMs += minutes * 60_000
    await expect
      .poll(async () => (await json('/history')).minutes.last, { timeout: 20_000 })
      .toBeGreaterThan(last)
  }

  for (let calls = 1; calls <= 25; calls += 1) await call(1)
  for (let minute = 1; minute <= 4; minute += 1) await pass(1)
  await pass(65)
  delayMs = 2_600
  await call(25)
  expect(await outages()).toEqual([])
  await pass(1)
  await expect
    .poll(outages, { timeout: 20_000 })
    .toMatchObject([{ what: 'slow', upstream: 'swap', isSevere: false, concerned: 'none', requests: 0 }])
  const [outage] = await outages()
  expect(outage?.p95Ms).toBeGreaterThan(2_500)
  expect(outage?.usualP95Ms).toBeLessThan(1_300)
  const { events } = (await json('/history')) as { events: { text: string }[] }
  expect(events.at(-1)?.text).toMatch(/^swap slowness: p95 of 10 min is \d+ ms, usually \d+ ms$/)
})
