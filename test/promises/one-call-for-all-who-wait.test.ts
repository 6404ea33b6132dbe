import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import {
  type Answered,
  ask,
  counted,
  giveQuote,
  lookups,
  quoteBody,
} from '../support/clients/quotes.ts'
import { pause } from '../support/gateways/between.ts'
import { held } from '../support/gateways/held.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'

const statusOf = ({ headers }: Answered) => headers['cache-status']?.toString() ?? ''
const ofOne = {
  'X-Request-Id': 'another',
  Traceparent: 'another',
  'X-Client-IP': '203.0.113.1',
}
const first = (waiting: readonly ServerResponse[]) => waiting[0] as ServerResponse
const times = <Value>(count: number, value: Value) => Array<Value>(count).fill(value)

describe('requests for the same quote at the same time', () => {
  it('make one upstream call, and all get its bytes', async () => {
    const { upstream, gateway, waiting, crowd, joined } = await held()
    const answers = crowd(64)
    await joined(63)
    const body = quoteBody()
    giveQuote(first(waiting), body)
    for (const answer of await Promise.all(answers)) {
      expect([answer.status, answer.body]).toEqual([200, body])
      expect(answer.headers['cache-control']).toMatch(/^private, max-age=\d+$/)
    }
    const statuses = (await Promise.all(answers)).map(statusOf)
    const collapsed = statuses.filter(
      (status) => status === 'quotegate; fwd=uri-miss; collapsed',
    )
    expect(collapsed).toHaveLength(63)
    expect(await counted(gateway, lookups('miss'))).toBe(1)
    expect(statusOf(await ask(gateway.url))).toContain('hit')
    expect(upstream.requests).toHaveLength(1)
  })

  it('in other spellings of the amount share the call too, HEAD with GET, another amount does not', async () => {
    const { upstream, gateway, waiting, called, joined } = await held()
    const path = (amount: string) => `/v3/pairs/ETH_USDC/quotes?amount=${amount}`
    const answers = ['0.1', '1e-1', '00.10', '0.2'].map((amount) =>
      ask(gateway.url, { path: path(amount) }),
    )
    answers.push(ask(gateway.url, { path: path('.1'), method: 'HEAD' }))
    await joined(3)
    await called(2)
    for (const response of waiting) giveQuote(response)
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(
      times(5, 200),
    )
    expect(upstream.requests).toHaveLength(2)
  })

  it.each<[what: string, status: number, fail: (response: ServerResponse) => unknown]>([
    ['an error answer', 503, (response) => response.writeHead(503, ofOne).end('busy')],
    // The provider's own word, and no failure of the call by time.
    ['a 504 of the provider', 504, (response) => response.writeHead(504).end('busy')],
    ['a reset', 502, (response) => response.socket?.resetAndDestroy()],
    [
      'an answer that is cut short',
      502,
      (response) => cut(response, { 'Content-Length': '1000' }),
    ],
    ['an answer that is cut in its chunks', 502, (response) => cut(response, {})],
  ])(
    'all get %s: %i, and the next one makes its own call',
    async (_what, status, fail) => {
      const { upstream, gateway, waiting, crowd, joined } = await held()
      const unhandled = escapedErrors()
      const answers = crowd(8)
      await joined(7)
      fail(first(waiting))
      const all = await Promise.all(answers)
      for (const answer of all) expect(answer.status).toBe(status)
      expect(new Set(all.map(({ headers }) => headers['x-request-id'])).size).toBe(8)
      expect(
        all.filter(({ headers }) => headers.traceparent ?? headers['x-client-ip']).length,
      ).toBeLessThan(2)
      expect(upstream.requests).toHaveLength(1)
      upstream.answer((_request, response) => giveQuote(response))
      expect(statusOf(await ask(gateway.url))).toContain('stored')
      expect(unhandled).toEqual([])
    },
  )

  it('all get 504 when UPSTREAM_TOTAL_TIMEOUT_MS is over, also in the middle of a body, and the call ends', async () => {
    const { timers, waiting, crowd, joined, ended } = await held({
      UPSTREAM_TOTAL_TIMEOUT_MS: '1000',
    })
    const answers = crowd(8)
    await joined(7)
    first(waiting).writeHead(200, { 'Content-Length': '1000' }).write('{')
    await pause(50)
    await timers.pass(1_000)
    for (const { status, body } of await Promise.all(answers))
      expect([status, JSON.parse(body).type]).toEqual([
        504,
        'urn:quotegate:problem:upstream-timeout',
      ])
    await ended(waiting[0])
  })
})

function cut(response: ServerResponse, headers: Record<string, string>): void {
  response.writeHead(200, headers).write(quoteBody(), () => response.destroy())
}

describe('a caller who leaves', () => {
  /** A request whose caller leaves when the test says so. */
  const leaver = (url: string) => {
    const leaving = new AbortController()
    return {
      left: ask(url, { signal: leaving.signal }).catch(() => 'left'),
      leave: () => leaving.abort(),
    }
  }

  it('last ends the call: the upstream sees its connection close, and nothing is kept', async () => {
    const { upstream, gateway, waiting, joined, ended } = await held()
    const unhandled = escapedErrors()
    const leavers = Array.from({ length: 8 }, () => leaver(gateway.url))
    await joined(7)
    for (const { leave } of leavers) leave()
    expect(await Promise.all(leavers.map(({ left }) => left))).toEqual(times(8, 'left'))
    await ended(waiting[0])
    await pause(20)
    expect(unhandled).toEqual([])
    upstream.answer((_request, response) => giveQuote(response))
    expect(statusOf(await ask(gateway.url))).toContain('stored')
  })
})
