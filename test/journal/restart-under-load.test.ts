import { afterEach, expect, onTestFinished, test } from 'vitest'
import { floatPath } from '../support/clients/orders.ts'
import { ask, giveQuote } from '../support/clients/quotes.ts'
import { pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { killPrograms, startProgram } from '../support/gateways/program.ts'
import { freePort } from '../support/machine/free-port.ts'
import { newFolder } from './disk-support.ts'

afterEach(killPrograms)

const clientsAtOnce = 8
const quotesOfEachKind = 10
const shortLifeMs = 1_500
/** From this amount on quotes are of short life. */
const firstShortAmount = 900_000
/** So long after their expiry short quotes have ended by every opinion on the provider's clock. */
const surelyOverMs = 2_500
const toAmountOf = (amount: string) => (1000 + Number(amount) * 1.0123457).toFixed(7)

/** A provider that gives the same quote for the same amount. */
async function provider() {
  const quotes = new Map<string, string>()
  const calls = new Map<string, number>()
  const upstream = await recordingUpstream((request, response) => {
    if (request.method !== 'GET') {
      response.writeHead(201, { 'Content-Type': 'application/json' })
      response.end('{"id":"order"}')
      return
    }
    const amount = new URL(request.target, 'http://x').searchParams.get('amount') ?? ''
    calls.set(amount, (calls.get(amount) ?? 0) + 1)
    const expiry = Date.now() + (Number(amount) >= firstShortAmount ? shortLifeMs : 600_000)
    const body = JSON.stringify({
      id: `quote-${amount}`,
      pairId: 'ETH_USDC',
      fromAmount: { assetId: 'ETH', value: amount },
      toAmount: { assetId: 'USDC', value: toAmountOf(amount) },
      expiry,
    })
    if (!quotes.has(amount)) quotes.set(amount, body)
    giveQuote(response, quotes.get(amount) ?? '', ['Date', new Date().toUTCString()])
  })
  const orders = () =>
    upstream.requests.flatMap(({ method, body }) => (method === 'POST' ? [JSON.parse(body.toString())] : []))
  const ordersFor = (amount: string) => orders().filter(({ fromAmount }) => fromAmount === amount).length
  return { upstream, ordersFor, callsFor: (amount: string) => calls.get(amount) ?? 0 }
}

type Provider = Awaited<ReturnType<typeof provider>>

async function start(settings: Record<string, string>) {
  const program = startProgram([], { ...settings, HOST: '127.0.0.1', ADMIN_PORT: '0', LOG_FORMAT: 'json' })
  await program.says(/"trafficUrl"/)
  return program
}

const quoteOf = (url: string, amount: string) =>
  ask(url, { path: `/v3/pairs/ETH_USDC/quotes?amount=${amount}` })

async function order(url: string, amount: string): Promise<string> {
  const body = JSON.stringify({ pairId: 'ETH_USDC', fromAmount: amount, toAmount: toAmountOf(amount) })
  const headers = [
    'App-Name',
    'wallet',
    'Content-Type',
    'application/json',
    'Content-Length',
    `${body.length}`,
  ]
  const { status } = await ask(url, { method: 'POST', path: floatPath, headers, body })
  return `${amount} ${status}`
}

/** Clients that take new quotes, each twice, and order every other one, and ask again where no answer comes. */
function traffic(url: string) {
  let isOver = false
  let next = 1
  const seen = { quotes: 0, ordered: [] as string[], wrong: [] as string[], unanswered: 0 }
  async function client(): Promise<void> {
    while (!isOver) {
      const amount = String(next++)
      try {
        const quote = await quoteOf(url, amount)
        // Out of the cache.
        if ((await quoteOf(url, amount)).status !== 200) seen.wrong.push(`${amount}: no hit`)
        seen.quotes += 1
        if (quote.status !== 200) seen.wrong.push(`${amount}: quote ${quote.status}`)
        if (Number(amount) % 2 === 0) continue
        const answer = await order(url, amount)
        seen.ordered.push(amount)
        if (answer !== `${amount} 201`) seen.wrong.push(`order ${answer}`)
      } catch {
        seen.unanswered += 1
        await pause(20)
      }
      await pause(10)
    }
  }
  const running = Promise.all(Array.from({ length: clientsAtOnce }, client))
  const stop = async () => {
    isOver = true
    await running
  }
  onTestFinished(stop)
  return { seen, stop }
}

/** Amounts of the test itself: traffic has lower ones. */
const amountsFrom = (first: number) => Array.from({ length: quotesOfEachKind }, (_, at) => String(first + at))
const live = amountsFrom(500_000)
const used = amountsFrom(600_000)
const short = amountsFrom(firstShortAmount)

async function callsForTwoQuotes(url: string, amount: string, { callsFor }: Provider): Promise<string> {
  const before = callsFor(amount)
  await quoteOf(url, amount)
  await quoteOf(url, amount)
  return `${amount}: ${callsFor(amount) - before} calls`
}

test.each(['SIGKILL', 'SIGTERM'] as const)(
  'orders for quotes of before a restart by %s under load: live ones are sent once, late ones refused, used ones stay used',
  async (signal) => {
    const swap = await provider()
    const port = String(await freePort())
    const url = `http://127.0.0.1:${port}`
    const settings = { SWAP_BASE_URL: swap.upstream.url, STATE_DIRECTORY: newFolder(), PORT: port }
    const first = await start(settings)
    const { seen, stop } = traffic(url)
    for (const amount of [...live, ...used, ...short]) expect((await quoteOf(url, amount)).status).toBe(200)
    expect(await Promise.all(used.map((amount) => order(url, amount)))).toEqual(
      used.map((amount) => `${amount} 201`),
    )
    // Far longer than the 100 ms in which it is written.
    await pause(2_000)
    first.child.kill(signal)
    await first.exit
    const before = seen.quotes
    await until(() => seen.unanswered > clientsAtOnce, 'clients without an answer')
    await start(settings)
    await until(() => seen.quotes > before + 10 * clientsAtOnce, 'traffic after the restart')
    await pause(surelyOverMs)

    const statuses = await Promise.all([...live, ...short].map((amount) => order(url, amount)))
    expect(statuses).toEqual([
      ...live.map((amount) => `${amount} 201`),
      ...short.map((amount) => `${amount} 409`),
    ])
    for (const amount of used) expect(await callsForTwoQuotes(url, amount, swap)).toBe(`${amount}: 2 calls`)
    await stop()
    expect(seen.wrong).toEqual([])
    for (const amount of [...live, ...used, ...seen.ordered])
      expect(`${amount}: ${swap.ordersFor(amount)}`).toBe(`${amount}: 1`)
    for (const amount of short) expect(`${amount}: ${swap.ordersFor(amount)}`).toBe(`${amount}: 0`)
  },
  120_000,
)
