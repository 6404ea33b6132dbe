import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import {
  type Answered,
  ask,
  counted,
  giveQuote,
  keepAliveAgent,
  lookups,
  notKept,
  quoteBody,
  untilCounted,
  watchForUnhandled,
} from '../support/clients/quotes.ts'
import { gatewayTo, pause, rawUpstream, until } from '../support/gateways/between.ts'
import { held } from '../support/gateways/held.ts'

const many = 64

const statusOf = ({ headers }: Answered) => headers['cache-status']?.toString() ?? ''

describe('requests for the same quote at the same time', () => {
  it('make one upstream call, and all get its bytes', async () => {
    const { upstream, gateway, waiting, crowd, joined } = await held()
    const answers = crowd(many)
    await joined(many - 1)
    const body = quoteBody()
    giveQuote(waiting[0] as ServerResponse, body)
    for (const answer of await Promise.all(answers)) {
      expect([answer.status, answer.body]).toEqual([200, body])
      expect(answer.headers['cache-control']).toMatch(/^private, max-age=\d+$/)
    }
    expect(upstream.requests).toHaveLength(1)
    const statuses = (await Promise.all(answers)).map(statusOf)
    expect(statuses.filter((status) => status === 'quotegate; fwd=uri-miss; collapsed')).toHaveLength(
      many - 1,
    )
    expect(await counted(gateway, lookups('miss'))).toBe(1)
    expect(statusOf(await ask(gateway.url))).toContain('hit')
  })

  it('in other spellings of the amount share the call too, HEAD with GET, another amount does not', async () => {
    const { upstream, gateway, waiting, joined } = await held()
    const path = (amount: string) => `/v3/pairs/ETH_USDC/quotes?amount=${amount}`
    const answers = ['0.1', '1e-1', '00.10'].map((amount) => ask(gateway.url, { path: path(amount) }))
    answers.push(
      ask(gateway.url, { path: path('.1'), method: 'HEAD' }),
      ask(gateway.url, { path: path('0.2') }),
    )
    await joined(3)
    await until(() => waiting.length === 2, 'two upstream calls')
    for (const response of waiting) giveQuote(response)
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
    expect(upstream.requests).toHaveLength(2)
  })

  it.each([
    [
      'an error answer',
      (response: ServerResponse) => response.writeHead(503, { 'Retry-After': '3' }).end('busy'),
      503,
    ],
    ['a reset', (response: ServerResponse) => response.socket?.resetAndDestroy(), 502],
    [
      'an answer that is cut short',
      (response: ServerResponse) => {
        response.writeHead(200, { 'Content-Length': '1000' })
        response.write(quoteBody(), () => response.destroy())
      },
      502,
    ],
    [
      'an answer that is cut in its chunks',
      (response: ServerResponse) => {
        response.writeHead(200)
        response.write(quoteBody(), () => response.destroy())
      },
      502,
    ],
  ])('all get %s, and the next one makes its own call', async (_what, fail, status) => {
    const { upstream, gateway, waiting, crowd, joined } = await held()
    const unhandled = watchForUnhandled()
    const answers = crowd(8)
    await joined(7)
    fail(waiting[0] as ServerResponse)
    for (const answer of await Promise.all(answers)) expect(answer.status).toBe(status)
    expect(upstream.requests).toHaveLength(1)
    upstream.answer((_request, response) => giveQuote(response))
    expect(statusOf(await ask(gateway.url))).toContain('stored')
    expect(upstream.requests).toHaveLength(2)
    expect(unhandled).toEqual([])
  })

  it('all get 504 when UPSTREAM_TOTAL_TIMEOUT_MS is over, also in the middle of a body, and the call ends', async () => {
    const { timers, waiting, crowd, joined, ended } = await held({ UPSTREAM_TOTAL_TIMEOUT_MS: '1000' })
    const answers = crowd(8)
    await joined(7)
    waiting[0]?.writeHead(200, { 'Content-Length': '1000' }).write('{')
    await pause(50)
    await timers.pass(1_000)
    for (const { status, body } of await Promise.all(answers))
      expect([status, JSON.parse(body).type]).toEqual([504, 'urn:quotegate:problem:upstream-timeout'])
    await ended(waiting[0])
  })

  it.each([
    ['vary', ['Vary', '*']],
    ['content-coding', ['Content-Encoding', 'br']],
  ] as const)('each get an answer of their own when it is not to be shared (%s)', async (reason, headers) => {
    const { upstream, gateway, waiting, crowd, joined } = await held()
    const answers = crowd(8)
    await joined(7)
    upstream.answer((_request, response) => giveQuote(response, quoteBody(), headers))
    giveQuote(waiting[0] as ServerResponse, quoteBody(), headers)
    const bodies = new Set((await Promise.all(answers)).map(({ body }) => body))
    expect(bodies.size).toBe(8)
    expect(upstream.requests).toHaveLength(8)
    expect(await counted(gateway, notKept(reason))).toBe(8)
    expect(await counted(gateway, 'quotegate_cache_entries')).toBe(0)
    for (const answer of await Promise.all(answers))
      expect(statusOf(answer)).toBe(`quotegate; fwd=bypass; detail=${reason}`)
  })
})

describe('a caller who leaves', () => {
  it('first harms no client that waits for its call', async () => {
    const { upstream, gateway, waiting, crowd, joined } = await held()
    const unhandled = watchForUnhandled()
    const first = new AbortController()
    const left = ask(gateway.url, { signal: first.signal }).catch(() => 'left')
    await until(() => waiting.length === 1, 'the upstream call')
    const others = crowd(8)
    await joined(8)
    first.abort()
    expect(await left).toBe('left')
    await untilCounted(gateway, aborted, 1)
    giveQuote(waiting[0] as ServerResponse)
    expect((await Promise.all(others)).map(({ status }) => status)).toEqual(Array(8).fill(200))
    expect(upstream.requests).toHaveLength(1)
    expect(unhandled).toEqual([])
  })

  it('last ends the call: the upstream sees its connection close, and nothing is kept', async () => {
    const { upstream, gateway, waiting, joined, ended } = await held()
    const unhandled = watchForUnhandled()
    const leaving = new AbortController()
    const all = Array.from({ length: 8 }, () =>
      ask(gateway.url, { signal: leaving.signal }).catch(() => 'left'),
    )
    await joined(7)
    await until(() => waiting.length === 1, 'the upstream call')
    leaving.abort()
    expect(await Promise.all(all)).toEqual(Array(8).fill('left'))
    await ended(waiting[0])
    await pause(20)
    expect(unhandled).toEqual([])
    expect(await counted(gateway, lookups('miss'))).toBe(1)
    upstream.answer((_request, response) => giveQuote(response))
    expect((await ask(gateway.url)).status).toBe(200)
  })

  it('last: a request that comes at the same moment does not join the cancelled call', async () => {
    const { upstream, gateway } = await held()
    const unhandled = watchForUnhandled()
    upstream.answer((_request, response) => setTimeout(() => giveQuote(response), 3))
    const agent = keepAliveAgent(4)
    for (let round = 0; round < 100; round += 1) {
      const path = `/v3/pairs/P/quotes?amount=${round + 1}`
      const leaving = new AbortController()
      const left = ask(gateway.url, { path, signal: leaving.signal }).catch(() => 'left')
      await pause(round % 5)
      leaving.abort()
      const newcomer = ask(gateway.url, { path, agent })
      expect((await newcomer).status).toBe(200)
      await left
    }
    expect(unhandled).toEqual([])
  })

  it('while it waits for its own call ends that call', async () => {
    const { gateway, waiting, joined, ended } = await held()
    const leaving = new AbortController()
    const first = ask(gateway.url)
    await until(() => waiting.length === 1, 'the first call')
    const second = ask(gateway.url, { signal: leaving.signal }).catch(() => 'left')
    await joined(1)
    giveQuote(waiting[0] as ServerResponse, quoteBody(), ['Vary', '*', 'Connection', 'close'])
    expect((await first).status).toBe(200)
    await until(() => waiting.length === 2, 'the second call')
    leaving.abort()
    expect(await second).toBe('left')
    await ended(waiting[1])
  })
})

const aborted = 'quotegate_http_requests_total{route="quote",method="GET",status_class="aborted"}'

it('an upstream that resets every connection costs each request its own 502, and the process nothing', async () => {
  const unhandled = watchForUnhandled()
  const upstream = await rawUpstream((socket: Socket) => socket.resetAndDestroy())
  const gateway = await gatewayTo(upstream.url)
  for (let times = 0; times < 4; times += 1) expect((await ask(gateway.url)).status).toBe(502)
  expect(unhandled).toEqual([])
})
