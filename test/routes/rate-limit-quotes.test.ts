import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import {
  type Answered,
  ask,
  asking,
  giveQuote,
  lookups,
  quoteBody,
  quotePath,
  untilCounted,
} from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'
import { held } from '../support/gateways/held.ts'

async function limited(perMinute: number, settings: Record<string, string> = {}) {
  const upstream = await recordingUpstream((_request, response) => giveQuote(response))
  const gateway = await gatewayTo(upstream.url, { RATE_LIMIT_PER_MINUTE: perMinute, ...settings })
  return { upstream, gateway }
}

const left = ({ headers }: Answered) => /r=(\d+)/.exec(String(headers.ratelimit))?.[1]

describe('quotes under a rate limit', () => {
  it('count if the upstream is called, and not if they are cached, even for a client at its limit', async () => {
    const { gateway, upstream } = await limited(2)
    expect(left(await asking(gateway.url, '1'))).toBe('1')
    for (let count = 0; count < 5; count++) {
      const hit = await asking(gateway.url, '1.0')
      expect([hit.status, left(hit)]).toEqual([200, undefined])
      expect(hit.headers['cache-status']).toContain('hit')
    }
    expect(left(await asking(gateway.url, '2'))).toBe('0')
    expect((await asking(gateway.url, '3')).status).toBe(429)
    const head = await ask(gateway.url, { path: `${quotePath}?amount=4`, method: 'HEAD' })
    expect([head.status, head.body, left(head)]).toEqual([429, '', '0'])
    expect((await asking(gateway.url, '1')).status).toBe(200)
    expect(upstream.requests).toHaveLength(2)
  })

  it('count a further call for the request that joined first; if that is refused, for the next', async () => {
    const stage = await held({
      UPSTREAM_HEADERS_TIMEOUT_MS: '2000',
      RATE_LIMIT_PER_MINUTE: '1',
      RATE_LIMIT_BY: 'client-ip',
      QUOTE_PARTITION: 'none',
      TRUST_PROXY: 'loopback',
    })
    const { upstream, gateway, waiting, called, joined } = stage
    const from = (client: number, amount = '0.1') =>
      ask(gateway.url, {
        path: `${quotePath}?amount=${amount}`,
        headers: ['App-Name', 'wallet', 'Forwarded', `for=198.51.100.${client}`],
      })
    const spent = from(2, '7')
    await called(1)
    giveQuote(waiting[0] as ServerResponse)
    await spent
    const beginner = from(1)
    await called(2)
    const joiners: Promise<Answered>[] = []
    for (const [index, client] of [2, 3, 4].entries()) {
      joiners.push(from(client))
      await joined(index + 1)
    }
    await stage.timers.pass(2_000)
    expect((await beginner).status).toBe(504)
    await called(3)
    giveQuote(waiting[2] as ServerResponse)
    expect((await Promise.all(joiners)).map(({ status }) => status)).toEqual([429, 200, 200])
    expect(upstream.requests.map(({ headers }) => headers.forwarded)).toEqual(
      [2, 1, 3].map((client) => `for=198.51.100.${client}`),
    )
  })

  it('that cannot be shared count for each request', async () => {
    const { gateway, upstream } = await limited(2)
    const waiting: ServerResponse[] = []
    upstream.answer((_request, response) => waiting.push(response))
    const crowd = Array.from({ length: 3 }, () => asking(gateway.url, '1'))
    await untilCounted(gateway, lookups('collapsed'), 2)
    await until(() => waiting.length > 0, 'the upstream call')
    upstream.answer((_request, response) => giveQuote(response, quoteBody(), ['Vary', '*']))
    giveQuote(waiting[0] as ServerResponse, quoteBody(), ['Vary', '*'])
    expect((await Promise.all(crowd)).map(({ status }) => status).sort()).toEqual([200, 200, 429])
    expect(upstream.requests).toHaveLength(2)
  })

  it('that are fetched in the background are not charged to any client', async () => {
    const { gateway, upstream } = await limited(1, { QUOTE_REFRESH_AHEAD_MS: '60000' })
    await asking(gateway.url, '1')
    expect((await asking(gateway.url, '1')).status).toBe(200)
    await until(() => upstream.requests.length === 2, 'the refresh')
  })
})
