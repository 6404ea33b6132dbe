// How many orders are refused by the guard though their quote is live, because the amount that they state, with slippage
// taken off, equals an older price by chance. A day of prices is noted in the real ledger, and orders are judged all
// through the day: npx tsx bench/slippage/main.ts

import { createQuoteLedger } from '../../src/orders/ledger.ts'
import { readOrder } from '../../src/orders/order-terms.ts'
import { parseDecimal } from '../../src/quotes/decimal.ts'

const dayMs = 86_400_000
const lifeMs = 30_000
/** What the amount gives at first. */
const startPrice = 289.645
/** How far the price moves in a day: on a usual one, and on a wild one. */
const dailyVolatilities = [0.02, 0.04]
const clients = 20
/** Each client asks for a quote again when its last one is over. */
const everyMs = lifeMs
const slippages = [0.001, 0.0025, 0.005, 0.01, 0.02]

/** The same numbers in every run (mulberry32). */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

function createNormal(random: () => number): () => number {
  return () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
}

interface Refusals {
  orders: number
  refused: number
}

/** Plays a day; the orders of each slippage are judged beside each other. */
function playDay(day: {
  decimals: number
  orderDecimals: number | undefined
  dailyVolatility: number
}): Refusals[] {
  const { decimals, orderDecimals, dailyVolatility } = day
  const random = createRandom(decimals)
  const normal = createNormal(random)
  let nowMs = 0
  let current = startPrice
  const ledger = createQuoteLedger({
    entries: 200_000,
    retentionMs: dayMs,
    clock: { nowMs: () => nowMs },
    leftNow:
      () =>
      ({ expiresAtMs }) =>
        expiresAtMs - nowMs,
  })
  const counts = slippages.map(() => ({ orders: 0, refused: 0 }))
  const perStep = dailyVolatility / Math.sqrt((dayMs / everyMs) * clients)
  for (let step = 0; nowMs < dayMs; step += 1) {
    nowMs = Math.floor((step * everyMs) / clients)
    current *= Math.exp(normal() * perStep)
    const given = current.toFixed(decimals)
    const partition = `client ${step % clients}`
    ledger.note({
      id: `q${step}`,
      pairId: 'ETH_USDC',
      fromValue: '0.1',
      requestedAmount: '0.1',
      toValue: parseDecimal(given) ?? given,
      application: 'wallet',
      partition,
      expiresAtMs: nowMs + lifeMs,
      cacheKey: '',
      notedAtMs: nowMs,
    })
    if (step % 7 !== 0) continue
    for (const [index, slippage] of slippages.entries()) {
      const least = Number(given) * (1 - slippage)
      const stated = orderDecimals === undefined ? String(least) : least.toFixed(orderDecimals)
      const { order } = readOrder(
        Buffer.from(`{"pairId":"ETH_USDC","fromAmount":0.1,"toAmount":${stated}}`),
        { quoteIdFields: [] },
      )
      const count = counts[index]
      if (order === undefined || count === undefined) continue
      const verdict = ledger.verdict(order, { application: 'wallet', partition, marginMs: 0 })
      count.orders += 1
      if (verdict.state === 'expired') count.refused += 1
    }
  }
  return counts
}

const head = ['a day', 'provider', 'order', ...slippages.map((slippage) => `${slippage * 100} %`)]
process.stdout.write(`| ${head.join(' | ')} |\n|${' --- |'.repeat(head.length)}\n`)
for (const dailyVolatility of dailyVolatilities) {
  for (const decimals of [2, 3, 8]) {
    for (const orderDecimals of [2, undefined]) {
      const shares = playDay({ decimals, orderDecimals, dailyVolatility }).map(
        ({ refused, orders }) => `${((100 * refused) / orders).toFixed(2)} %`,
      )
      const spelled = orderDecimals === undefined ? 'unrounded' : `${orderDecimals} decimals`
      const row = [`${dailyVolatility * 100} %`, `${decimals} decimals`, spelled, ...shares]
      process.stdout.write(`| ${row.join(' | ')} |\n`)
    }
  }
}
