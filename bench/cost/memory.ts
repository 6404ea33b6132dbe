// What an entry of the cache and one of the ledger take of the heap, and the time of a look-up and of judging an order by its
// terms: node --expose-gc --import tsx bench/cost/memory.ts [entries, 200000]

import { randomUUID } from 'node:crypto'
import { systemClock } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { latin1Headers } from '../../src/http/headers.ts'
import { decide } from '../../src/orders/guard.ts'
import { Ledger } from '../../src/orders/ledger.ts'
import { readOrder } from '../../src/orders/order-terms.ts'
import { flatText } from '../../src/process/text.ts'
import { QuoteKeys } from '../../src/quotes/ask.ts'
import { QuoteCache } from '../../src/quotes/cache.ts'
import { AnswerReader, type StoredQuote } from '../../src/quotes/quote.ts'
import { spread } from '../compare/results.ts'
import { table } from '../shared/table.ts'

const entries = Number(process.argv[2] ?? 200_000)
const { gc } = globalThis as { gc?: () => void }
if (gc === undefined) throw new Error('run with --expose-gc')
const rounds = 12
const clock = systemClock

function heapUsed(): number {
  for (let count = 0; count < 2; count += 1) gc?.()
  return process.memoryUsage().heapUsed
}

/** In µs of the processor, one of `times`: the median, and the least and the most. */
function timed(times: number, act: () => void): string {
  const tookUs = Array.from({ length: rounds }, () => {
    const before = process.cpuUsage()
    act()
    const { user, system } = process.cpuUsage(before)
    return (user + system) / times
  })
  const { median, min, max } = spread(tookUs)
  return `${median.toFixed(2)} (${min.toFixed(2)} to ${max.toFixed(2)})`
}

// The cache.

const keys = new QuoteKeys('bench')
const events = new Events()
const quotes = {
  cacheEntries: entries,
  cacheBytes: 8e9,
  maxBytes: 16_384,
  minValidityMs: 0,
  refreshAheadMs: 0,
}
const config = { quotes }
const reader = new AnswerReader({ config, clock, events })
const expiresAtMs = clock.nowMs() + 3_600_000

const keyOf = (number: number) =>
  keys.of({
    pair: 'ETH_USDC',
    canonicalAmount: String(number),
    keyedHeaders: [
      ['app-name', 'bench'],
      ['app-version', undefined],
      ['user-agent', 'bench/1.0'],
      ['authorization', undefined],
    ],
    partition: '127.0.0.1',
    query: '',
    target: `/v3/pairs/ETH_USDC/quotes?amount=${number}`,
  })

/** Made like a stored quote of the gateway: by the same function, from an answer's bytes. */
function storedQuote(number: number): StoredQuote {
  const body = Buffer.from(
    `{"fromAmount":{"assetId":"ETH","value":"${number}"},"id":"${number.toString(16).padStart(64, 'f')}",` +
      `"pairId":"ETH_USDC","toAmount":{"assetId":"USDC","value":"289.645"},"expiry":${expiresAtMs}}`,
  )
  const date = new Date().toUTCString()
  const headers = ['Content-Type', 'application/json', 'Content-Length', String(body.length), 'Date', date]
  const answer = {
    status: 200,
    reason: 'OK',
    rawHeaders: latin1Headers(headers.map((part) => Buffer.from(part))),
    body,
    sentAtMs: Date.now(),
    receivedAtMs: Date.now(),
    sentSteadyMs: performance.now(),
    receivedSteadyMs: performance.now(),
  }
  const { stored, notKept } = reader.read(answer, String(number))
  if (stored === undefined) throw new Error(`a quote was not kept: ${notKept}`)
  return stored
}

function measureCache(): string[] {
  const cache = new QuoteCache({ config, clock, events })
  /** The first quotes bring code and tables into memory, which are not theirs. */
  const uncounted = 500
  for (let number = 1; number <= uncounted; number += 1) cache.keep(keyOf(number), storedQuote(number))
  const before = heapUsed()
  for (let number = uncounted + 1; number <= entries; number += 1)
    cache.keep(keyOf(number), storedQuote(number))
  const bytes = (heapUsed() - before) / (entries - uncounted)
  if (cache.entries !== entries) throw new Error(`${cache.entries} quotes are kept, not ${entries}`)
  // At random, so that a look-up does not find its quote in the processor's caches.
  const asked = Array.from({ length: 65_536 }, () => keyOf(1 + Math.floor(Math.random() * entries)))
  const took = timed(asked.length, () => {
    for (const key of asked) if (cache.get(key) === undefined) throw new Error('a quote was not found')
  })
  return ['cache', bytes.toFixed(0), took]
}

// The ledger: all quotes of one pair, amount and application, and of many amounts.

const orders = 1_000
/** Between two quotes, so that the ledger reaches back half an hour. */
const everyMs = 10
const shortLifeMs = 30_000
const longLifeMs = 2 * entries * everyMs

interface Filling {
  amounts: number
  clients: number
  lifeMs: number
}

const price = () => 289 + Math.random() * 3
const clientNamed = (index: number, { clients }: Filling) =>
  flatText(`client ${index % clients}`.padEnd(16, '.'))

function fill(filling: Filling): Ledger {
  const { amounts, lifeMs } = filling
  const ledger = new Ledger({ entries, retentionMs: 86_400_000, clock })
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

function measureLedger(what: string, filling: Filling): string[] {
  const before = heapUsed()
  const ledger = fill(filling)
  const bytes = (heapUsed() - before) / ledger.size
  const asked = { application: 'wallet', isAddress: true, marginMs: 0, othersKnown: true }
  const read = Array.from({ length: orders }, (_, index) => {
    const body = `{"pairId":"ETH_USDC","fromAmount":0.1,"toAmount":${price().toFixed(3 + (index % 4))}}`
    return readOrder(Buffer.from(body), { quoteIdFields: ['quoteId'] }).order
  })
  const took = timed(orders, () => {
    for (const [index, order] of read.entries())
      if (order) decide(ledger, order, { ...asked, partition: clientNamed(index, filling) }, ledger.now())
  })
  return [what, bytes.toFixed(0), took]
}

const many = { amounts: 1, clients: 4_000 }
const rows = [
  measureCache(),
  measureLedger('ledger, one amount, most over', { ...many, lifeMs: shortLifeMs }),
  measureLedger('ledger, one amount, all live', { ...many, lifeMs: longLifeMs }),
  measureLedger('ledger, one amount, one client, most over', { ...many, clients: 1, lifeMs: shortLifeMs }),
  measureLedger('ledger, one amount, one client, all live', { ...many, clients: 1, lifeMs: longLifeMs }),
  measureLedger('ledger, 5,000 amounts, most over', { ...many, amounts: 5_000, lifeMs: shortLifeMs }),
  measureLedger('ledger, 5,000 amounts, all live', { ...many, amounts: 5_000, lifeMs: longLifeMs }),
]
const head = ['', 'bytes an entry', 'a look-up or judging an order, µs: median (least to most)']
process.stdout.write(`${table(head, rows)}\n`)
