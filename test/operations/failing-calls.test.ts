import { describe, expect, test } from 'vitest'
import { systemTimers } from '../../src/clock.ts'
import { giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { gatewayWith, recordingUpstream } from '../support/gateways/between.ts'
import { eventsOf, statusOf } from './support.ts'

type Answer = (response: Parameters<typeof giveQuote>[0], path: string) => void

const status = (code: number) => (response: Parameters<Answer>[0]) =>
  void response.writeHead(code, { 'Content-Type': 'application/json' }).end('{}')
const answersWell: Answer = (response) =>
  giveQuote(response, quoteBody({ expiry: Date.now() + 600_000 }))

/** A gateway before an upstream that can be broken; the test lets the time pass. */
async function stage(settings: Record<string, string | number> = {}) {
  let aheadMs = 0
  let answer: Answer = answersWell
  const upstream = await recordingUpstream((request, response) =>
    answer(response, request.target),
  )
  const steadyMs = () => performance.now() + aheadMs
  const timers = { ...systemTimers, steadyMs }
  const clock = { nowMs: Date.now, steadyMs, timers }
  const lines: { level: string; message: string; outage?: string }[] = []
  const line = (level: string) => (members: object, message: string) =>
    void lines.push({ level, message, ...members })
  const logger = {
    debug: () => {},
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
  }
  const gateway = await gatewayWith(
    { SWAP_BASE_URL: upstream.url, PAYMENTS_BASE_URL: upstream.url, ...settings },
    { clock, logger },
  )
  let asked = 0
  return {
    gateway,
    /** The lines of the log about outages, without their numbers. */
    logged: () =>
      lines.flatMap(({ level, message, outage }) =>
        outage === undefined ? [] : [`${level} ${message.replace(/\d+ %/, 'n %')}`],
      ),
    from(next: Answer) {
      answer = next
    },
    async quotes(times: number): Promise<void> {
      for (let time = 1; time <= times; time += 1) {
        // Each of another application and for another amount, so that no limit and no cache answers it.
        asked += 1
        const headers = { 'App-Name': `app-${asked}` }
        const target = `/v3/pairs/ETH_USDC/quotes?amount=1.${asked}`
        await (await fetch(gateway.url + target, { headers })).arrayBuffer()
      }
    },
    async send(times: number, target: string, method = 'GET'): Promise<void> {
      const headers = { 'App-Name': 'demo', 'Content-Type': 'application/json' }
      const order = '{"pairId":"ETH_USDC","fromAmount":"1"}'
      const body = method === 'GET' ? null : order
      for (let time = 1; time <= times; time += 1) {
        const answer = await fetch(gateway.url + target, { method, headers, body })
        await answer.arrayBuffer()
      }
    },
    /** The history knows of the time that has passed once it has ticked. */
    async pass(ms: number): Promise<void> {
      const { sparklines } = await statusOf(gateway)
      const slots = sparklines.requests.length + Math.floor(ms / 10_000)
      aheadMs += ms
      await expect
        .poll(async () => (await statusOf(gateway)).sparklines.requests.length)
        .toBeGreaterThanOrEqual(Math.min(slots, 90))
    },
    outages: async () => (await statusOf(gateway)).outages,
    said: async () =>
      (await statusOf(gateway)).outages.map(({ text }: { text: string }) => text),
    events: async () => (await eventsOf(gateway)).map(({ text }) => text),
  }
}

describe('quotes that cannot be kept', () => {
  test.each([
    ['are answered 429', status(429), '429'],
    ['are answered 401', status(401), '401'],
    ['are answered 403, as with a key that was withdrawn', status(403), '403'],
    [
      'expire in seconds of the epoch',
      ((response) => {
        const expiry = Math.floor(Date.now() / 1_000) + 60
        giveQuote(response, quoteBody({ expiry }))
      }) satisfies Answer,
      'its expiry is in seconds',
    ],
  ])(
    'that %s, are said in red, logged once, and why nothing is cached',
    async (...row) => {
      const [, answer, reason] = row
      const { from, quotes, pass, outages, said, logged, gateway } = await stage()
      from(answer)
      await quotes(8)
      await pass(10_000)
      const text = `swap quotes: 100 % of the calls of the last minute brought no quote that can be kept (${reason})`
      await expect.poll(said).toEqual([text])
      await quotes(2)
      expect(await outages()).toMatchObject([
        {
          what: 'no-quotes',
          upstream: 'swap',
          failing: ['quotes'],
          isSevere: true,
          share: 1,
          lastFailure: reason,
          runbook: expect.stringMatching(/#quotegatenoquotes--warning$/),
        },
      ])
      expect(logged()).toEqual([`warn ${text.replace('100 %', 'n %')}`])
      const { traffic } = (await statusOf(gateway)).upstreams[0]
      expect(traffic[0].notKept).toEqual({ answers: 10, reason })
      from(answersWell)
      await pass(60_000)
      await quotes(1)
      await expect.poll(said).toEqual([])
      expect(logged().at(-1)).toMatch(/^info swap quotes: over after .+ \(.+\)$/)
      expect(logged()).toHaveLength(2)
    },
  )

  test('turn from amber to red as their share grows past a half, in one sentence and one warning', async () => {
    const { from, quotes, pass, outages, logged, events } = await stage()
    await quotes(30)
    from(status(429))
    await quotes(6)
    await pass(10_000)
    const says = (share: number) =>
      `${share} % of the calls of the last minute brought no quote that can be kept (429)`
    await expect.poll(outages).toMatchObject([{ isSevere: false, says: says(17) }])
    await quotes(34)
    await expect.poll(outages).toMatchObject([{ isSevere: true, says: says(57) }])
    expect(logged()).toHaveLength(1)
    expect((await events()).slice(1)).toEqual([
      `swap quotes: ${says(17)}`,
      expect.stringMatching(/^swap quotes: 5\d % /),
    ])
  })

  test('and of which single users are refused a fifth, are not an outage', async () => {
    const { from, quotes, pass, said, logged } = await stage()
    await quotes(40)
    from(status(403))
    await quotes(10)
    await pass(10_000)
    // The page looks once a second.
    await pass(1_000)
    expect(await said()).toEqual([])
    expect(logged()).toEqual([])
  })

  test('but used by the caller that asked, are not an outage, and the page knows why nothing is cached', async () => {
    const { gateway, from, quotes, pass, said } = await stage()
    from((response) => {
      response.setHeader('Vary', '*')
      answersWell(response, '')
    })
    await quotes(8)
    await pass(10_000)
    expect(await said()).toEqual([])
    const { traffic } = (await statusOf(gateway)).upstreams[0]
    expect(traffic[0].notKept).toEqual({ answers: 8, reason: 'its Vary is *' })
  })
})

test('quotes that a breaker stops have a line in the log when that begins and when it is over', async () => {
  const { from, quotes, said, logged } = await stage({
    breakerFailures: 2,
    breakerMinFailingMs: 0,
    breakerOpenMs: 100,
  })
  const saidAfterAQuote = async () => {
    await quotes(1)
    return said()
  }
  from(status(503))
  const text = 'The swap API fails (503) for quotes'
  await expect.poll(saidAfterAQuote, { interval: 200 }).toEqual([text])
  const begun = 'warn swap quotes: all that were asked for fail (503)'
  expect(logged()).toEqual([begun])
  from(answersWell)
  await expect.poll(saidAfterAQuote, { interval: 200 }).toEqual([])
  const over = expect.stringMatching(/^info swap quotes: over after .* \(503\)$/)
  expect(logged()).toEqual([begun, over])
})

describe('calls of other kinds that fail', () => {
  test.each([
    ['swap orders', '/v3/orders', 'POST'],
    ['the rest of /v3', '/v3/pairs', 'GET'],
    ['payments', '/checkouts?limit=1', 'GET'],
  ])('of %s, are said with their share', async (name, target, method) => {
    const { from, send, pass, outages, logged } = await stage()
    await send(18, target, method)
    from(status(500))
    await send(8, target, method)
    await pass(10_000)
    const says = '31 % of the calls of the last minute failed (500)'
    await expect
      .poll(outages)
      .toMatchObject([
        { name, says, what: 'failing', isSevere: false, share: expect.closeTo(8 / 26) },
      ])
    expect((await outages())[0].runbook).toMatch(/#quotegateroutefails--critical$/)
    expect(logged()).toEqual([`warn ${name}: ${says.replace('31', 'n')}`])
  })

  test('are over once enough calls in a row have succeeded, though most of the minute has failed', async () => {
    const { from, send, pass, said, logged } = await stage()
    from(status(401))
    await send(20, '/v3/pairs')
    await pass(10_000)
    const text = 'the rest of /v3: 100 % of the calls of the last minute failed (401)'
    await expect.poll(said).toEqual([text])
    from(answersWell)
    // Few successes may be chance, and without any traffic nothing is known.
    await send(4, '/v3/pairs')
    await pass(20_000)
    await pass(1_000)
    expect(await said()).toHaveLength(1)
    await send(14, '/v3/pairs')
    // By its share alone it would stay for half a minute.
    await expect.poll(said, { timeout: 10_000 }).toEqual([])
    await pass(1_000)
    expect(await said()).toEqual([])
    expect(logged()).toHaveLength(2)
    from(status(401))
    await send(20, '/v3/pairs')
    await pass(10_000)
    await expect.poll(said).toHaveLength(1)
  })

  test('because the provider refuses single users, or that are one of three, are not an outage', async () => {
    const { from, send, pass, said } = await stage()
    await send(2, '/v3/pairs')
    from(status(403))
    await send(20, '/v3/orders', 'POST')
    from(status(500))
    await send(1, '/v3/pairs')
    await pass(10_000)
    await pass(1_000)
    expect(await said()).toEqual([])
  })

  test('all for one reason, are one sentence', async () => {
    const { from, quotes, send, pass, outages } = await stage()
    for (const next of [answersWell, status(503)]) {
      from(next)
      const times = next === answersWell ? 14 : 6
      await quotes(times)
      await send(times, '/v3/orders', 'POST')
      await send(times, '/v3/pairs')
    }
    await pass(10_000)
    const text =
      'The swap API fails (503) for 30 % of quotes, 30 % of orders and 30 % of everything else'
    await expect.poll(outages).toMatchObject([
      {
        text,
        what: 'failing',
        isSevere: false,
        failing: ['quotes', 'orders', 'rest'],
      },
    ])
  })

  test('are not said to work, in the sentence of this upstream or of another', async () => {
    const { from, quotes, send, pass, outages } = await stage()
    for (const [next, times] of [
      [status(503), 6],
      [answersWell, 14],
    ] as const) {
      from(next)
      await quotes(times)
      await send(times, '/checkouts')
    }
    await send(1, '/v3/pairs')
    await pass(10_000)
    const stillServed = ['other swap requests']
    await expect.poll(outages).toMatchObject([
      { upstream: 'swap', stillServed },
      { upstream: 'payments', stillServed },
    ])
  })

  test('for the same reason and more than a half of one kind alone, are one sentence in red', async () => {
    const { from, quotes, send, pass, outages } = await stage()
    await send(24, '/v3/pairs')
    from(status(401))
    await quotes(6)
    await send(6, '/v3/pairs')
    await pass(10_000)
    const text = 'The swap API fails (401) for quotes and 20 % of other requests'
    await expect.poll(outages).toMatchObject([{ text, isSevere: true }])
  })
})
