// What an entry of the ledger takes, and how long it takes to judge an order by its terms: all quotes of one pair, amount and
// application, and of many: node --expose-gc --import tsx bench/ledger/main.ts

import { randomUUID } from 'node:crypto'
import { systemClock } from '../../src/clock.ts'
import { decide } from '../../src/orders/guard.ts'
import { Ledger } from '../../src/orders/ledger.ts'
import { readOrder } from '../../src/orders/order-terms.ts'
import { flatText } from '../../src/process/text.ts'

/** `main.ts 50000`: fewer, which is faster. */
const entries = Number(process.argv[2] ?? 200_000)
const orders = 1_000
const rounds = 12
/** Between two quotes, so that the ledger reaches back half an hour. */
const everyMs = 10
const shortLifeMs = 30_000
const longLifeMs = 2 * entries * everyMs

const price = () => 289 + Math.random() * 3

interface Filling {
  amounts: number
  clients: number
  lifeMs: number
}

const clientNamed = (index: number, { clients }: Filling) =>
  flatText(`client ${index % clients}`.padEnd(16, '.'))

function fill(filling: Filling): Ledger {
  const { amounts, lifeMs } = filling
  const ledger = new Ledger({ entries, retentionMs: 86_400_000, clock: systemClock })
  const [nowMs, steadyMs] = [Date.now(), performance.now()]
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
      partition: clientNamed(index, filling),
      expiresAtMs: nowMs + leftMs,
      refusedFromMs: nowMs + leftMs + 50,
      wallAheadMs: nowMs - steadyMs,
      cacheKey: flatText(`${index}`.padEnd(150, '.')),
      notedAtMs: nowMs - (entries - index) * everyMs,
    })
  }
  return ledger
}

function processorUs(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return user + system
}

function judgeAll(ledger: Ledger, filling: Filling): number {
  const bodies = Array.from({ length: orders }, (_, index) => {
    return Buffer.from(
      `{"pairId":"ETH_USDC","fromAmount":0.1,"toAmount":${price().toFixed(3 + (index % 4))}}`,
    )
  })
  const read = bodies.flatMap((body) => readOrder(body, { quoteIdFields: ['quoteId'] }).order ?? [])
  const asked = { application: 'wallet', isAddress: true, marginMs: 0, othersKnown: true }
  const before = process.cpuUsage()
  for (const [index, order] of read.entries())
    decide(ledger, order, { ...asked, partition: clientNamed(index, filling) })
  return processorUs(before) / read.length
}

process.stdout.write(
  '| quotes of | bytes an entry | judging an order, us of processor: median (least to most) |\n' +
    '| --- | --- | --- |\n',
)
for (const { what, ...filling } of [
  { what: 'one amount, most over', amounts: 1, clients: 4_000, lifeMs: shortLifeMs },
  { what: 'one amount, all live', amounts: 1, clients: 4_000, lifeMs: longLifeMs },
  { what: 'one amount, one client, most over', amounts: 1, clients: 1, lifeMs: shortLifeMs },
  { what: 'one amount, one client, all live', amounts: 1, clients: 1, lifeMs: longLifeMs },
  { what: '5,000 amounts, most over', amounts: 5_000, clients: 4_000, lifeMs: shortLifeMs },
  { what: '5,000 amounts, all live', amounts: 5_000, clients: 4_000, lifeMs: longLifeMs },
]) {
  global.gc?.()
  const before = process.memoryUsage().heapUsed
  const ledger = fill(filling)
  global.gc?.()
  const bytes = (process.memoryUsage().heapUsed - before) / ledger.size
  const tookUs = Array.from({ length: rounds }, () => judgeAll(ledger, filling)).sort(
    (left, right) => left - right,
  )
  const [least = 0, median = 0, most = 0] = [tookUs[0], tookUs[rounds / 2], tookUs.at(-1)]
  const took = `${median.toFixed(0)} (${least.toFixed(0)} to ${most.toFixed(0)})`
  process.stdout.write(`| ${what} | ${bytes.toFixed(0)} | ${took} |\n`)
}
