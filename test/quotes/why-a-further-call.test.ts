import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import type { RateLimiter, Taken } from '../../src/client/rate-limiter.ts'
import { systemClock } from '../../src/clock.ts'
import {
  ask,
  asking,
  deferred,
  giveQuote,
  lookups,
  quoteBody,
  quotePath,
  untilCounted,
} from '../support/clients/quotes.ts'
import { at, refuse, refusedAddress, sharedBy } from '../support/clients/refusals.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'
import { quotesThatExpireWaiting } from '../support/gateways/short-lived-quotes.ts'
import { VirtualTime } from '../support/machine/virtual-time.ts'
import { keptLog } from '../support/observing/log-lines.ts'

// A request whose time ends while it waits for a further call reads why it had to wait for one: in the log, by its problem.

const abortedQuotes =
  'quotegate_http_requests_total{route="quote",method="GET",status_class="aborted"}'
const headersTimeoutMs = 3_000
const totalTimeoutMs = 4_000
const otherAddress = '203.0.113.7'

/** A request has begun a call, another has joined it, and the second call is never answered. */
async function joined(amounts: readonly [string, string] = ['0.1', '0.1']) {
  const waiting: ServerResponse[] = []
  const upstream = await recordingUpstream((_request, response) => waiting.push(response))
  const log = await keptLog()
  const timers = new VirtualTime()
  const takes: ((taken: Taken) => void)[] = []
  const rateLimiter: RateLimiter = {
    perMinute: 10,
    take() {
      const { promise, resolve } = deferred<Taken>()
      takes.push(resolve)
      return promise
    },
  }
  const gateway = await gatewayTo(
    upstream.url,
    {
      ...sharedBy.none,
      retries: '0',
      RATE_LIMIT_PER_MINUTE: 10,
      RATE_LIMIT_BY: 'client-ip',
      UPSTREAM_HEADERS_TIMEOUT_MS: headersTimeoutMs,
      UPSTREAM_TOTAL_TIMEOUT_MS: totalTimeoutMs,
    },
    { clock: { ...systemClock, timers }, logger: log.logger, rateLimiter },
  )
  const counted = (count: number) => until(() => takes.length >= count, `count ${count}`)
  const called = (count: number) => until(() => waiting.length >= count, `call ${count}`)
  const allow = (index: number) =>
    takes[index]?.({ allowed: true, remaining: 5, resetMs: 30_000 })
  const leaving = new AbortController()
  ask(gateway.url, {
    path: `${quotePath}?amount=${amounts[0]}`,
    headers: at(refusedAddress),
    signal: leaving.signal,
  }).catch(() => {})
  await counted(1)
  const joiner = asking(gateway.url, amounts[1], at(otherAddress))
  await untilCounted(gateway, lookups('collapsed'), 1)
  return {
    timers,
    async leave() {
      leaving.abort()
      await untilCounted(gateway, abortedQuotes, 1)
    },
    call: waiting,
    limit: () => takes[0]?.({ allowed: false, remaining: 0, resetMs: 30_000 }),
    async begins() {
      allow(0)
      await called(1)
    },
    /** The problem of the joiner, whose time ends before the further call, and the reason in its line. */
    async why() {
      await counted(2)
      await timers.pass(totalTimeoutMs)
      const { status, body } = await joiner
      expect([status, JSON.parse(body).type]).toEqual([
        504,
        'urn:quotegate:problem:upstream-timeout',
      ])
      return reasonIn(log)
    },
  }
}

function reasonIn(log: Awaited<ReturnType<typeof keptLog>>): string | undefined {
  const said = log
    .lines()
    .map(({ cause }) => (cause as { message?: string } | undefined)?.message ?? '')
  const start = 'no quote within the time of the request: '
  return said.find((message) => message.startsWith(start))?.slice(start.length)
}

describe('the log says why a caller waited for a further call, each reason in its own words:', () => {
  it('the provider refused another user', async () => {
    const { begins, call, why } = await joined()
    await begins()
    refuse(call[0] as ServerResponse)
    expect(await why()).toBe(
      'the call that it joined was refused by the provider to another user',
    )
  })

  it('the quote was for another amount', async () => {
    const { begins, call, why } = await joined(['0.1', '0.10'])
    await begins()
    const fromAmount = { assetId: 'ETH', value: '3' }
    giveQuote(call[0] as ServerResponse, quoteBody({ fromAmount }))
    expect(await why()).toBe(
      'the call that it joined wrote the amount in another way, and its quote was for another amount',
    )
  })

  it('the answer was for one user', async () => {
    const { begins, call, why } = await joined()
    await begins()
    giveQuote(call[0] as ServerResponse, quoteBody(), ['Vary', '*'])
    expect(await why()).toBe(
      'the answer of the call that it joined was for one user alone',
    )
  })

  it('the call timed out', async () => {
    const { begins, timers, leave, why } = await joined()
    await begins()
    // The beginner would have a line of its own, and further lines about the same cause are counted alone.
    await leave()
    await timers.pass(headersTimeoutMs)
    expect(await why()).toBe('the call that it joined timed out')
  })

  it('another application or user had reached its limit', async () => {
    const { limit, why } = await joined()
    limit()
    expect(await why()).toBe(
      'the call that it joined was not sent, because the application or user that began it had reached a limit',
    )
  })

  it.each([
    [1, '1 quote expired before it could be written'],
    [2, '2 quotes in a row expired before they could be written'],
  ])('%i quotes expired', async (count, reason) => {
    const log = await keptLog()
    const { url, lifeMs, provider } = await quotesThatExpireWaiting(
      { UPSTREAM_TOTAL_TIMEOUT_MS: totalTimeoutMs },
      { logger: log.logger },
    )
    provider.answersLeft = count
    expect((await asking(url, String(lifeMs))).status).toBe(504)
    expect(reasonIn(log)).toBe(reason)
  })
})
