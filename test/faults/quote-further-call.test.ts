import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import {
  type Answered,
  ask,
  counted,
  giveQuote,
  lookups,
  quoteBody,
  quotePath,
  untilCounted,
  watchForUnhandled,
} from '../support/clients/quotes.ts'
import { aSecond, pause } from '../support/gateways/between.ts'
import { held } from '../support/gateways/held.ts'

// Joining a call that had hung for 9 s was a 504 after 1.5 s, though the provider had recovered.

/** A call fails by time after four seconds, in which those that are to join it have to come. */
const hanging = { UPSTREAM_HEADERS_TIMEOUT_MS: '4000' }
const statusOf = ({ headers }: Answered) => headers['cache-status']?.toString() ?? ''
const statuses = async (answers: Promise<Answered>[]) =>
  (await Promise.all(answers)).map(({ status }) => status)
const calls = 'quotegate_quote_calls_total{pair="other"}'
const ended = (outcome: string) => `quotegate_upstream_requests_total{upstream="swap",outcome="${outcome}"}`
const times = <Value>(count: number, value: Value) => Array<Value>(count).fill(value)

/**
 * A call that hangs, with its beginner and those that joined it. All have come before half of its time is over; on a machine
 * that is too slow for this, another call has more time.
 */
async function hung(joiners: number, settings: Record<string, string> = {}) {
  for (let timeoutMs = 2_000; ; timeoutMs *= 2) {
    const stage = await held({ UPSTREAM_HEADERS_TIMEOUT_MS: String(timeoutMs), ...settings })
    const startedAtMs = performance.now()
    const crew = await hungAt(stage, joiners)
    if (performance.now() - startedAtMs < timeoutMs / 2) return crew
    stage.upstream.answer((_request, response) => giveQuote(response))
    for (const response of stage.waiting) giveQuote(response)
    await Promise.all([crew.beginner, ...crew.joiners])
  }
}

async function hungAt(stage: Awaited<ReturnType<typeof held>>, joiners: number) {
  const unhandled = watchForUnhandled()
  const { length } = stage.upstream.requests
  const beginner = ask(stage.gateway.url)
  await stage.called(length + 1)
  const crowd = stage.crowd(joiners)
  await stage.joined(joiners)
  return { ...stage, unhandled, beginner, joiners: crowd }
}

describe('a call that fails by time', () => {
  it('is a 504 for the one that began it; all that joined it share one further call', async () => {
    const { upstream, gateway, waiting, called, beginner, joiners, unhandled } = await hung(100)
    expect((await beginner).status).toBe(504)
    await called(2)
    const body = quoteBody()
    giveQuote(waiting[1] as ServerResponse, body)
    const answers = await Promise.all(joiners)
    expect(answers.map((answer) => [answer.status, answer.body])).toEqual(times(100, [200, body]))
    expect(answers.filter((answer) => statusOf(answer).includes('; stored; '))).toHaveLength(1)
    expect(answers.filter((answer) => statusOf(answer).endsWith('; collapsed'))).toHaveLength(99)
    expect(upstream.requests).toHaveLength(2)
    // Each request is one lookup, and the further call one more call.
    expect([await counted(gateway, lookups('miss')), await counted(gateway, lookups('collapsed'))]).toEqual([
      1, 100,
    ])
    expect(await counted(gateway, calls)).toBe(2)
    expect(statusOf(await ask(gateway.url))).toContain('hit')
    expect(unhandled).toEqual([])
  })

  it('in the middle of its body is followed by a further call too', async () => {
    const { waiting, called, beginner, joiners } = await hung(3, { bodyTimeoutMs: '1000' })
    waiting[0]?.writeHead(200, { 'Content-Length': '1000' }).write('{')
    expect((await beginner).status).toBe(504)
    await called(2)
    giveQuote(waiting[1] as ServerResponse)
    expect(await statuses(joiners)).toEqual([200, 200, 200])
  })

  it('twice is a 504 for all that took part in the further call, and one more call for those that joined it', async () => {
    const { upstream, gateway, waiting, called, joined, crowd, beginner, joiners, unhandled } = await hung(8)
    expect((await beginner).status).toBe(504)
    await called(2)
    const late = crowd(4)
    await joined(12)
    expect(await statuses(joiners)).toEqual(times(8, 504))
    await called(3)
    giveQuote(waiting[2] as ServerResponse)
    expect(await statuses(late)).toEqual(times(4, 200))
    expect(upstream.requests).toHaveLength(3)
    expect(await counted(gateway, ended('http_response_timeout'))).toBe(2)
    expect(unhandled).toEqual([])
  })

  it('is not followed by a further call where all that joined it have left', async () => {
    const { upstream, gateway, called } = await held(hanging)
    const unhandled = watchForUnhandled()
    const beginner = ask(gateway.url)
    await called(1)
    const leaving = new AbortController()
    const left = [1, 2, 3].map(() => ask(gateway.url, { signal: leaving.signal }).catch(() => 'left'))
    await untilCounted(gateway, lookups('collapsed'), 3)
    leaving.abort()
    expect(await Promise.all(left)).toEqual(times(3, 'left'))
    expect((await beginner).status).toBe(504)
    await pause(50)
    expect(upstream.requests).toHaveLength(1)
    expect(unhandled).toEqual([])
  })

  it.each([
    ['502', (response: ServerResponse) => response.socket?.resetAndDestroy()],
    ['503', (response: ServerResponse) => response.writeHead(503).end('busy')],
    // The provider's own word, and no failure of the call.
    ['504', (response: ServerResponse) => response.writeHead(504).end('busy')],
  ])('is not one that ends as %s: that goes to all that wait', async (status, fail) => {
    const { upstream, waiting, beginner, joiners } = await hung(8)
    fail(waiting[0] as ServerResponse)
    expect(await statuses([beginner, ...joiners])).toEqual(times(9, Number(status)))
    expect(upstream.requests).toHaveLength(1)
  })
})

describe('a further call', () => {
  it("ends for each waiting request when that request's own time is over", async () => {
    const settings = { UPSTREAM_HEADERS_TIMEOUT_MS: '600000', UPSTREAM_TOTAL_TIMEOUT_MS: '4000' }
    const { upstream, gateway, waiting, called, joined, ended: closed } = await held(settings)
    const unhandled = watchForUnhandled()
    const beginner = ask(gateway.url)
    await called(1)
    await pause(1_500)
    const joiner = ask(gateway.url)
    await joined(1)
    expect((await beginner).status).toBe(504)
    await called(2)
    const { status, body } = await joiner
    expect([status, JSON.parse(body).type]).toEqual([504, 'urn:quotegate:problem:upstream-timeout'])
    // It was given up before its own time was over, and is out of the table.
    await closed(waiting[1])
    expect(await counted(gateway, ended('http_response_timeout'))).toBe(1)
    expect(await counted(gateway, ended('given-up'))).toBe(1)
    upstream.answer((_request, response) => giveQuote(response))
    expect(statusOf(await ask(gateway.url))).toContain('stored')
    expect(upstream.requests).toHaveLength(3)
    expect(unhandled).toEqual([])
  })

  it('continues for requests that have more time, after the time of the first one is over', async () => {
    const settings = { UPSTREAM_HEADERS_TIMEOUT_MS: '600000', UPSTREAM_TOTAL_TIMEOUT_MS: '6000' }
    const { upstream, gateway, waiting, called, joined } = await held(settings)
    const beginner = ask(gateway.url)
    await called(1)
    await pause(1_000)
    const early = ask(gateway.url)
    await joined(1)
    await pause(2_500)
    const late = ask(gateway.url)
    await joined(2)
    expect(await statuses([beginner, early])).toEqual([504, 504])
    expect(upstream.requests).toHaveLength(2)
    giveQuote(waiting[1] as ServerResponse)
    const answer = await late
    expect([answer.status, statusOf(answer)]).toEqual([200, 'quotegate; fwd=uri-miss; collapsed'])
  })

  it('goes on while a client waits, and is given up and out of the table when none does', async () => {
    const { upstream, gateway, waiting, called, ended: closed } = await held(hanging)
    const unhandled = watchForUnhandled()
    const beginner = ask(gateway.url)
    await called(1)
    const leaving = [1, 2, 3].map(() => new AbortController())
    const answers: Promise<unknown>[] = []
    for (const [index, { signal }] of leaving.entries()) {
      answers.push(ask(gateway.url, { signal }).catch(() => 'left'))
      await untilCounted(gateway, lookups('collapsed'), index + 1)
    }
    expect((await beginner).status).toBe(504)
    await called(2)
    // First the one on whose behalf it was made.
    leaving[0]?.abort()
    leaving[1]?.abort()
    await untilCounted(gateway, aborted, 2)
    expect(waiting[1]?.socket?.destroyed).toBe(false)
    leaving[2]?.abort()
    await closed(waiting[1])
    expect(await Promise.all(answers)).toEqual(times(3, 'left'))
    upstream.answer((_request, response) => giveQuote(response))
    expect(statusOf(await ask(gateway.url))).toContain('stored')
    expect(unhandled).toEqual([])
  })

  it('is one call for HEAD and GET', async () => {
    const { upstream, gateway, waiting, called, joined } = await held(hanging)
    const beginner = ask(gateway.url, { method: 'HEAD' })
    await called(1)
    const [head, get] = [ask(gateway.url, { method: 'HEAD' }), ask(gateway.url)]
    await joined(2)
    expect((await beginner).status).toBe(504)
    await called(2)
    const body = quoteBody()
    giveQuote(waiting[1] as ServerResponse, body)
    expect([(await head).status, (await head).body, (await get).body]).toEqual([200, '', body])
    expect(upstream.requests.map(({ method }) => method)).toEqual(['GET', 'GET'])
  })

  it('whose answer may not be shared gives it to one request; each other makes its own call', async () => {
    const { upstream, waiting, called, beginner, joiners } = await hung(4)
    expect((await beginner).status).toBe(504)
    await called(2)
    upstream.answer((_request, response) => giveQuote(response, quoteBody(), ['Vary', '*']))
    giveQuote(waiting[1] as ServerResponse, quoteBody(), ['Vary', '*'])
    expect(new Set((await Promise.all(joiners)).map(({ body }) => body)).size).toBe(4)
    expect(upstream.requests).toHaveLength(5)
  })

  it('is refused while the breaker is open', async () => {
    const stage = await held({ ...hanging, breakerFailures: '2', breakerOpenMs: '600000' })
    const failing = ask(stage.gateway.url, { path: `${quotePath}?amount=7` })
    await stage.called(1)
    stage.waiting[0]?.writeHead(503).end()
    expect((await failing).status).toBe(503)
    await aSecond()
    const { upstream, beginner, joiners } = await hungAt(stage, 4)
    expect((await beginner).status).toBe(504)
    const answers = await Promise.all(joiners)
    expect(answers.map(({ status, body }) => [status, JSON.parse(body).type])).toEqual(
      times(4, [503, 'urn:quotegate:problem:breaker-open']),
    )
    expect(upstream.requests).toHaveLength(2)
  })

  it('is made and answered in a drain', async () => {
    const { gateway, waiting, called, beginner, joiners } = await hung(4)
    const closed = gateway.close()
    expect((await beginner).status).toBe(504)
    await called(2)
    giveQuote(waiting[1] as ServerResponse)
    expect(await statuses(joiners)).toEqual(times(4, 200))
    await closed
  })
})

const aborted = 'quotegate_http_requests_total{route="quote",method="GET",status_class="aborted"}'
