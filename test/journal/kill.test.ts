import { randomInt } from 'node:crypto'
import { Agent } from 'node:http'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { afterEach, expect, onTestFinished, test } from 'vitest'
import { post } from '../support/clients/orders.ts'
import { ask, giveQuote } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream } from '../support/gateways/between.ts'
import { killPrograms, startProgram } from '../support/gateways/program.ts'
import { environment } from '../support/machine/environment.ts'
import { newFolder } from './disk-support.ts'

/** `npm run check:long` asks for more. */
const kills = Number(environment().STATE_KILLS ?? 5)
const quotesPerRun = 1_000
const clientsAtOnce = 16
const livesMs = { short: 300, long: 600_000 }
/** So long after their expiry short quotes have ended by every opinion on the provider's clock. */
const surelyOverMs = 2_500

afterEach(killPrograms)

type Kind = keyof typeof livesMs

interface Answered {
  amount: string
  kind: Kind
  atMs: number
  orderedAtMs: number
}

/** Every third quote ends soon, every seventh of the others is ordered. */
const kindOf = (number: number): Kind => (number % 3 === 0 ? 'short' : 'long')
const toAmountOf = (amount: string) => (1000 + Number(amount) * 1.0123457).toFixed(7)
const terms = (amount: string) => ({ pairId: 'ETH_USDC', fromAmount: amount, toAmount: toAmountOf(amount) })

/** A provider that gives the same quote for the same amount until it expires. */
async function provider() {
  const expiries = new Map<string, number>()
  const calls = new Map<string, number>()
  const stableLife: { now: Kind } = { now: 'short' }
  let stableQuotes = 0
  const upstream = await recordingUpstream((request, response) => {
    if (request.method !== 'GET') {
      response.writeHead(201, { 'Content-Type': 'application/json' })
      response.end('{"id":"order"}')
      return
    }
    const { pathname, searchParams } = new URL(request.target, 'http://x')
    const amount = searchParams.get('amount') ?? ''
    if (pathname.includes('USDC_USDT')) {
      stableQuotes += 1
      const stable = {
        id: `stable-${stableQuotes}`,
        pairId: 'USDC_USDT',
        fromAmount: { assetId: 'USDC', value: amount },
        toAmount: { assetId: 'USDT', value: stablePriceOf(amount) },
        expiry: Date.now() + livesMs[stableLife.now],
      }
      giveQuote(response, JSON.stringify(stable), ['Date', new Date().toUTCString()])
      return
    }
    calls.set(amount, (calls.get(amount) ?? 0) + 1)
    const expiry = expiries.get(amount) ?? Date.now() + livesMs[kindOf(Number(amount))]
    expiries.set(amount, expiry)
    const quote = {
      id: `quote-${amount}`,
      pairId: 'ETH_USDC',
      fromAmount: { assetId: 'ETH', value: amount },
      toAmount: { assetId: 'USDC', value: toAmountOf(amount) },
      expiry,
    }
    giveQuote(response, JSON.stringify(quote), ['Date', new Date().toUTCString()])
  })
  return { upstream, stableLife, callsFor: (amount: string) => calls.get(amount) ?? 0 }
}

async function start(swapUrl: string, folder: string) {
  const program = startProgram([], {
    SWAP_BASE_URL: swapUrl,
    STATE_DIRECTORY: folder,
    PORT: '0',
    ADMIN_PORT: '0',
    LOG_FORMAT: 'json',
  })
  const [, url = ''] = await program.says(/"trafficUrl":"([^"]+)"/)
  return {
    url,
    program,
    async kill() {
      program.child.kill('SIGKILL')
      await program.exit
    },
  }
}

const order = (url: string, amount: string) => rawExchange(url, post(JSON.stringify(terms(amount))))

/** A pair whose price has few digits and does not change, so that a live quote looks like an expired one. */
const stableAmounts = Array.from({ length: 8 }, (_, at) => String(100 + at))
const stablePriceOf = (amount: string) => (Number(amount) - 0.0125).toFixed(4)
const askStable = (url: string) =>
  Promise.all(
    stableAmounts.map((amount) => ask(url, { path: `/v3/pairs/USDC_USDT/quotes?amount=${amount}` })),
  )
const stableTerms = (amount: string) => ({
  pairId: 'USDC_USDT',
  fromAmount: amount,
  toAmount: stablePriceOf(amount),
})

test(
  `everything that was answered more than 100 ms before is there again after kill -9, and no live order is refused, ${kills} times`,
  async () => {
    const { upstream, callsFor, stableLife } = await provider()
    const delays = monitorEventLoopDelay()
    delays.enable()
    onTestFinished(() => void delays.disable())
    const folder = newFolder()
    let number = 1
    for (let kill = 0; kill < kills; kill += 1) {
      const gateway = await start(upstream.url, folder)
      const agent = new Agent({ keepAlive: true, maxSockets: clientsAtOnce })
      const answered: Answered[] = []
      stableLife.now = 'short'
      await askStable(gateway.url)
      await pause(livesMs.short)
      const last = number + quotesPerRun
      const killAfter = randomInt(quotesPerRun / 10, (quotesPerRun * 9) / 10)
      delays.reset()
      let killing: Promise<void> | undefined
      let killedAtMs = 0

      async function killNow(): Promise<void> {
        stableLife.now = 'long'
        const stable = await askStable(gateway.url)
        for (const { status } of stable) expect(status).toBe(200)
        killedAtMs = performance.now()
        await gateway.kill()
      }

      async function client(): Promise<void> {
        while (number < last && killing === undefined) {
          const amount = String(number)
          number += 1
          const quote = await ask(gateway.url, {
            path: `/v3/pairs/ETH_USDC/quotes?amount=${amount}`,
            agent,
          })
          if (quote.status !== 200) return
          const kind = kindOf(Number(amount))
          const given = { amount, kind, atMs: performance.now(), orderedAtMs: Number.POSITIVE_INFINITY }
          answered.push(given)
          if (kind === 'long' && Number(amount) % 7 === 0) {
            if ((await order(gateway.url, amount)).status === 201) given.orderedAtMs = performance.now()
          }
          if (answered.length >= killAfter && killing === undefined) {
            killing = killNow()
          }
        }
      }
      await Promise.all(Array.from({ length: clientsAtOnce }, () => client().catch(() => {})))
      await (killing ?? killNow())
      agent.destroy()

      // On a machine that has other things to do, the 100 ms take longer for everybody.
      const beforeMs = killedAtMs - 100 - (2 * delays.max) / 1e6
      const known = answered.filter(({ atMs }) => atMs < beforeMs)
      const second = await start(upstream.url, folder)
      // Clients hold live quotes that were answered a moment before the kill, and that no process knows any more.
      for (const amount of stableAmounts) {
        const { status } = await rawExchange(second.url, post(JSON.stringify(stableTerms(amount))))
        expect(`${amount} ${status}`).toBe(`${amount} 201`)
      }
      await pause(surelyOverMs)
      const short = known.filter(({ kind }) => kind === 'short')
      expect(await statusesOf(second.url, short)).toEqual(short.map(({ amount }) => `${amount} 409`))
      // Live ones are sent, also those that were answered a moment before the kill.
      const long = answered.filter(
        ({ kind, orderedAtMs }) => kind === 'long' && orderedAtMs === Number.POSITIVE_INFINITY,
      )
      expect(await statusesOf(second.url, long)).toEqual(long.map(({ amount }) => `${amount} 201`))
      for (const { amount } of known.filter(({ orderedAtMs }) => orderedAtMs < beforeMs).slice(0, 20)) {
        const before = callsFor(amount)
        for (let times = 0; times < 2; times += 1) {
          await ask(second.url, { path: `/v3/pairs/ETH_USDC/quotes?amount=${amount}` })
        }
        expect(`${amount}: ${callsFor(amount) - before} calls`).toBe(`${amount}: 2 calls`)
      }
      await second.kill()
    }
  },
  kills * 60_000,
)

async function statusesOf(url: string, quotes: readonly Answered[]): Promise<string[]> {
  const statuses: string[] = []
  for (let next = 0; next < quotes.length; next += clientsAtOnce) {
    const some = quotes.slice(next, next + clientsAtOnce)
    const answers = await Promise.all(some.map(({ amount }) => order(url, amount)))
    statuses.push(...answers.map(({ status }, index) => `${some[index]?.amount} ${status}`))
  }
  return statuses
}
