import { execFileSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { post } from '../support/clients/orders.ts'
import { ask, giveQuote } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { environment } from '../support/machine/environment.ts'
import {
  appendAll,
  fileName,
  newFolder,
  noted,
  opened,
  startOn,
  textOf,
} from './disk-support.ts'

/** `npm run check:long` asks for more. */
const kills = Number(environment().STATE_KILLS ?? 3)
const quotesPerRun = 1_000
const clientsAtOnce = 16
const livesMs = { short: 1_000, long: 600_000 }
/** So long after their expiry short quotes have ended by every opinion on the provider's clock. */
const surelyOverMs = 2_500

type Kind = keyof typeof livesMs

interface Answered {
  amount: string
  kind: Kind
  atMs: number
  orderedAtMs: number
}

/** Every third quote ends soon, every seventh of the others is ordered. */
const kindOf = (number: number): Kind => (number % 3 === 0 ? 'short' : 'long')
const priceOf = (amount: string) => (1000 + Number(amount) * 1.0123457).toFixed(7)

/** A pair whose price has few digits and does not change, so that a live quote looks like an expired one. */
const stablePair = 'USDC_USDT'
const stableAmounts = Array.from({ length: 8 }, (_, at) => String(100 + at))
const stablePriceOf = (amount: string) => (Number(amount) - 0.0125).toFixed(4)

/** A provider that gives the same quote for the same amount until it expires; of the stable pair each time another. */
async function provider() {
  const expiries = new Map<string, number>()
  const calls = new Map<string, number>()
  const stable: { kind: Kind; given: number } = { kind: 'short', given: 0 }
  const upstream = await recordingUpstream(({ method, target }, response) => {
    if (method !== 'GET') return void response.writeHead(201).end('{"id":"order"}')
    const { pathname, searchParams } = new URL(target, 'http://x')
    const amount = searchParams.get('amount') ?? ''
    const [, , , pairId = ''] = pathname.split('/')
    const isStable = pairId === stablePair
    const kind = isStable ? stable.kind : kindOf(Number(amount))
    const known = isStable ? undefined : expiries.get(amount)
    const expiry = known ?? Date.now() + livesMs[kind]
    if (isStable) stable.given += 1
    else {
      calls.set(amount, (calls.get(amount) ?? 0) + 1)
      expiries.set(amount, expiry)
    }
    const [from, to] = pairId.split('_')
    const quote = {
      id: isStable ? `stable-${stable.given}` : `quote-${amount}`,
      pairId,
      fromAmount: { assetId: from, value: amount },
      toAmount: {
        assetId: to,
        value: isStable ? stablePriceOf(amount) : priceOf(amount),
      },
      expiry,
    }
    giveQuote(response, JSON.stringify(quote), ['Date', new Date().toUTCString()])
  })
  return { upstream, stable, callsFor: (amount: string) => calls.get(amount) ?? 0 }
}

const askFor = (
  url: string,
  amount: string,
  { pairId = 'ETH_USDC', agent }: { pairId?: string; agent?: Agent } = {},
) =>
  ask(url, {
    path: `/v3/pairs/${pairId}/quotes?amount=${amount}`,
    ...(agent && { agent }),
  })
const askStable = (url: string) =>
  Promise.all(stableAmounts.map((amount) => askFor(url, amount, { pairId: stablePair })))

const order = (url: string, amount: string, pairId = 'ETH_USDC') => {
  const toAmount = pairId === stablePair ? stablePriceOf(amount) : priceOf(amount)
  return rawExchange(url, post(JSON.stringify({ pairId, fromAmount: amount, toAmount })))
}

/** How orders for these are answered. */
async function statusesOf(
  url: string,
  amounts: readonly string[],
  pairId?: string,
): Promise<string[]> {
  const statuses: string[] = []
  for (let next = 0; next < amounts.length; next += clientsAtOnce) {
    const some = amounts.slice(next, next + clientsAtOnce)
    const answers = await Promise.all(some.map((amount) => order(url, amount, pairId)))
    statuses.push(...answers.map(({ status }, index) => `${some[index]} ${status}`))
  }
  return statuses
}
const all = (amounts: readonly string[], status: number) =>
  amounts.map((amount) => `${amount} ${status}`)

test(
  `everything that was answered more than 100 ms before is there again after kill -9, and no live order is refused, ${kills} times`,
  async () => {
    const { upstream, callsFor, stable } = await provider()
    const delays = monitorEventLoopDelay()
    delays.enable()
    onTestFinished(() => void delays.disable())
    const folder = newFolder()
    const settings = { SWAP_BASE_URL: upstream.url }
    let number = 1
    for (let kill = 0; kill < kills; kill += 1) {
      const first = startOn(folder, settings)
      const url = await first.ready()
      const agent = new Agent({ keepAlive: true, maxSockets: clientsAtOnce })
      const answered: Answered[] = []
      stable.kind = 'short'
      await askStable(url)
      await pause(livesMs.short)
      const last = number + quotesPerRun
      const killAfter = randomInt(quotesPerRun / 10, (quotesPerRun * 9) / 10)
      delays.reset()
      let killing: Promise<void> | undefined
      let killedAtMs = 0

      async function killNow(): Promise<void> {
        stable.kind = 'long'
        expect((await askStable(url)).map(({ status }) => status)).toEqual(
          stableAmounts.map(() => 200),
        )
        killedAtMs = performance.now()
        await first.end('SIGKILL')
      }

      async function client(): Promise<void> {
        while (number < last && killing === undefined) {
          const amount = String(number)
          number += 1
          if ((await askFor(url, amount, { agent })).status !== 200) return
          const kind = kindOf(Number(amount))
          const given = {
            amount,
            kind,
            atMs: performance.now(),
            orderedAtMs: Number.POSITIVE_INFINITY,
          }
          answered.push(given)
          const isOrdered = kind === 'long' && Number(amount) % 7 === 0
          if (isOrdered && (await order(url, amount)).status === 201)
            given.orderedAtMs = performance.now()
          if (answered.length >= killAfter) killing ??= killNow()
        }
      }
      await Promise.all(
        Array.from({ length: clientsAtOnce }, () => client().catch(() => {})),
      )
      await (killing ?? killNow())
      agent.destroy()

      // On a machine that has other things to do, the 100 ms take longer for everybody.
      const beforeMs = killedAtMs - 100 - (2 * delays.max) / 1e6
      const known = answered.filter(({ atMs }) => atMs < beforeMs)
      const amountsOf = (quotes: readonly Answered[]) =>
        quotes.map(({ amount }) => amount)
      const second = startOn(folder, settings)
      const later = await second.ready()
      // Callers hold live quotes that were answered a moment before the kill, and that no process knows any more.
      expect(await statusesOf(later, stableAmounts, stablePair)).toEqual(
        all(stableAmounts, 201),
      )
      await pause(surelyOverMs)
      const short = amountsOf(known.filter(({ kind }) => kind === 'short'))
      expect(await statusesOf(later, short)).toEqual(all(short, 409))
      // Live ones are sent, also those that were answered a moment before the kill.
      const isLive = ({ kind, orderedAtMs }: Answered) =>
        kind === 'long' && orderedAtMs === Number.POSITIVE_INFINITY
      const long = amountsOf(answered.filter(isLive))
      expect(await statusesOf(later, long)).toEqual(all(long, 201))
      for (const { amount } of known
        .filter(({ orderedAtMs }) => orderedAtMs < beforeMs)
        .slice(0, 20)) {
        const before = callsFor(amount)
        for (let times = 0; times < 2; times += 1) await askFor(later, amount)
        expect(`${amount}: ${callsFor(amount) - before} calls`).toBe(`${amount}: 2 calls`)
      }
      await second.end('SIGKILL')
    }
  },
  Math.max(kills * 60_000, 180_000),
)

test.each(['while it reads the folder', 'before it notes a quote'])(
  'kill -9 of a start %s costs nothing, three times in a row',
  async (moment) => {
    const swapBaseUrl = 'https://swap.example'
    const folder = newFolder()
    const first = await opened(folder, { swapBaseUrl, clock: systemClock })
    const expiresAtMs = Date.now()
    await appendAll(
      first,
      Array.from({ length: 100 }, (_, number) => noted(number, { expiresAtMs })),
    )
    await first.journal.close()
    const before = textOf(folder)
    for (let times = 0; times < 3; times += 1) {
      // A start waits here until something writes into it.
      const holdsStart = join(folder, 'journal-2.ndjson')
      if (moment === 'while it reads the folder') execFileSync('mkfifo', [holdsStart])
      rmSync(join(folder, 'lock'), { force: true })
      const { ready, end } = startOn(folder, { SWAP_BASE_URL: swapBaseUrl })
      if (moment === 'before it notes a quote') await ready()
      else
        await until(
          () => existsSync(join(folder, 'lock')),
          'the start to open the folder',
        )
      await end('SIGKILL')
      rmSync(holdsStart, { force: true })
    }
    expect(readdirSync(folder).sort()).toEqual([fileName, 'lock'])
    expect(textOf(folder)).toBe(before)
    const { memory, lines } = await opened(folder, { swapBaseUrl, clock: systemClock })
    expect(memory).toMatchObject({ restored: { length: 100 }, doubts: 0 })
    expect(lines()).toEqual([])
  },
)
