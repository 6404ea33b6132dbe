// What an entry of the ledger takes, and how long it takes to judge an order by its terms: all quotes of one pair, amount and
// application, and of many: node --expose-gc --import tsx bench/ledger/main.ts

import { randomUUID } from 'node:crypto'
import { systemClock } from '../../src/clock.ts'
import { createQuoteLedger, type QuoteLedger } from '../../src/orders/ledger.ts'
import { readOrder } from '../../src/orders/order-terms.ts'
import { flatText } from '../../src/process/flat-text.ts'
import { silentLogger } from '../../src/process/logger.ts'
import { createProviderClock } from '../../src/quotes/provider-clock.ts'

const entries = 200_000
const clients = 4_000
const orders = 1_000
const rounds = 12
/** Between two quotes, so that the ledger reaches back half an hour. */
const everyMs = 10
const shortLifeMs = 30_000
const longLifeMs = 2 * entries * everyMs

const clientNamed = (index: number) => flatText(`client ${index % clients}`.padEnd(16, '.'))
const price = () => 289 + Math.random() * 3

function fill({ amounts, lifeMs }: { amounts: number; lifeMs: number }): QuoteLedger {
  const providerClock = createProviderClock({ clock: systemClock, log: silentLogger() })
  const ledger = createQuoteLedger({
    entries,
    retentionMs: 86_400_000,
    clock: systemClock,
    leftNow: providerClock.orderLeftNow,
  })
  const [nowMs, steadyMs] = [Date.now(), Math.round(performance.now())]
  for (let index = 0; index < entries; index += 1) {
    const leftMs = lifeMs - (entries - index) * everyMs
    const amount = flatText((0.1 + (index % amounts) / 1_000).toFixed(3))
    ledger.note({
      id: flatText(randomUUID()),
      pairId: flatText('ETH_USDC'),
      fromValue: amount,
      requestedAmount: flatText(amount),
      toValue: flatText(price().toFixed(12)),
      application: 'wallet',
      partition: clientNamed(index),
      expiresAtMs: nowMs + leftMs,
      ownEnd: { fromMs: steadyMs + leftMs - 1_250, untilMs: steadyMs + leftMs + 50 },
      cacheKey: flatText(`${index}`.padEnd(150, '.')),
      notedAtMs: nowMs - (entries - index) * everyMs,
    })
  }
  return ledger
}

function judgeAll(ledger: QuoteLedger): number {
  const bodies = Array.from({ length: orders }, (_, index) => {
    return Buffer.from(
      `{"pairId":"ETH_USDC","fromAmount":0.1,"toAmount":${price().toFixed(3 + (index % 4))}}`,
    )
  })
  const read = bodies.flatMap((body) => readOrder(body, { quoteIdFields: ['quoteId'] }).order ?? [])
  const startedAtMs = performance.now()
  for (const [index, order] of read.entries())
    ledger.verdict(order, { application: 'wallet', partition: clientNamed(index), marginMs: 0 })
  return ((performance.now() - startedAtMs) * 1_000) / read.length
}

process.stdout.write(
  '| quotes of | bytes an entry | judging an order, us: median (least to most) |\n| --- | --- | --- |\n',
)
for (const { what, ...filling } of [
  { what: 'one amount, most expired', amounts: 1, lifeMs: shortLifeMs },
  { what: '5,000 amounts, most expired', amounts: 5_000, lifeMs: shortLifeMs },
  { what: '5,000 amounts, all live', amounts: 5_000, lifeMs: longLifeMs },
]) {
  global.gc?.()
  const before = process.memoryUsage().heapUsed
  const ledger = fill(filling)
  global.gc?.()
  const bytes = (process.memoryUsage().heapUsed - before) / ledger.size
  const tookUs = Array.from({ length: rounds }, () => judgeAll(ledger)).sort((left, right) => left - right)
  const [least = 0, median = 0, most = 0] = [tookUs[0], tookUs[rounds / 2], tookUs.at(-1)]
  const took = `${median.toFixed(0)} (${least.toFixed(0)} to ${most.toFixed(0)})`
  process.stdout.write(`| ${what} | ${bytes.toFixed(0)} | ${took} |\n`)
}
