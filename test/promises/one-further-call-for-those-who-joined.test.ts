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
} from '../support/clients/quotes.ts'
import { held } from '../support/gateways/held.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'

// Joining a call that had hung for 9 s was a 504 after 1.5 s, though the provider had recovered.

const timeoutMs = 4_000
const hanging = { UPSTREAM_HEADERS_TIMEOUT_MS: String(timeoutMs) }
const statusOf = ({ headers }: Answered) => headers['cache-status']?.toString() ?? ''
const statuses = async (answers: Promise<Answered>[]) =>
  (await Promise.all(answers)).map(({ status }) => status)
const calls = 'quotegate_quote_calls_total{pair="other"}'
const times = <Value>(count: number, value: Value) => Array<Value>(count).fill(value)

/** A call that hangs, with its beginner and those that joined it. `isLate`: its time is over, and its beginner gets a 504. */
async function hung(
  joiners: number,
  settings: Record<string, string> = {},
  before?: Awaited<ReturnType<typeof held>>,
) {
  const stage = before ?? (await held({ ...hanging, ...settings }))
  const unhandled = escapedErrors()
  const { length } = stage.upstream.requests
  const beginner = ask(stage.gateway.url)
  await stage.called(length + 1)
  const crowd = stage.crowd(joiners)
  await stage.joined(joiners)
  async function isLate(): Promise<void> {
    await stage.timers.pass(timeoutMs)
    expect((await beginner).status).toBe(504)
  }
  return { ...stage, unhandled, beginner, joiners: crowd, isLate }
}

describe('a call that fails by time', () => {
  it('is a 504 for the one that began it; all that joined it share one further call', async () => {
    const { upstream, gateway, waiting, called, isLate, joiners, unhandled } =
      await hung(100)
    await isLate()
    await called(2)
    const body = quoteBody()
    giveQuote(waiting[1] as ServerResponse, body)
    const answers = await Promise.all(joiners)
    expect(answers.map((answer) => [answer.status, answer.body])).toEqual(
      times(100, [200, body]),
    )
    expect(
      answers.filter((answer) => statusOf(answer).includes('; stored; ')),
    ).toHaveLength(1)
    expect(
      answers.filter((answer) => statusOf(answer).endsWith('; collapsed')),
    ).toHaveLength(99)
    expect(upstream.requests).toHaveLength(2)
    // Each request is one lookup, and the further call one more call.
    expect([
      await counted(gateway, lookups('miss')),
      await counted(gateway, lookups('collapsed')),
    ]).toEqual([1, 100])
    expect(await counted(gateway, calls)).toBe(2)
    expect(statusOf(await ask(gateway.url))).toContain('hit')
    expect(unhandled).toEqual([])
  })
})

describe('a further call', () => {
  it('is refused while the breaker is open', async () => {
    const stage = await held({
      ...hanging,
      breakerFailures: '2',
      breakerOpenMs: '600000',
    })
    const failing = ask(stage.gateway.url, { path: `${quotePath}?amount=7` })
    await stage.called(1)
    stage.waiting[0]?.writeHead(503).end()
    expect((await failing).status).toBe(503)
    await stage.timers.pass(1_000)
    const { upstream, isLate, joiners } = await hung(4, {}, stage)
    await isLate()
    const answers = await Promise.all(joiners)
    expect(answers.map(({ status, body }) => [status, JSON.parse(body).type])).toEqual(
      times(4, [503, 'urn:quotegate:problem:breaker-open']),
    )
    expect(upstream.requests).toHaveLength(2)
  })

  it('is made and answered in a drain', async () => {
    const { gateway, waiting, called, isLate, joiners } = await hung(4)
    const closed = gateway.close()
    await isLate()
    await called(2)
    giveQuote(waiting[1] as ServerResponse)
    expect(await statuses(joiners)).toEqual(times(4, 200))
    await closed
  })
})
