// What an entry of the cache and one of the ledger take, on the heap and outside it:
// node --expose-gc --import tsx bench/cost/memory.ts [entries, 200000]

import { randomUUID } from 'node:crypto'
import { lookAt, systemClock } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { Ledger } from '../../src/memory/ledger.ts'
import { flatText } from '../../src/process/text.ts'
import { QuoteCache } from '../../src/quotes/cache.ts'
import { AnswerReader, type Quote, quoteOf } from '../../src/quotes/quote.ts'
import { keyOf } from '../../src/quotes/request.ts'
import { table } from '../shared/table.ts'

const entries = Number(process.argv[2] ?? 200_000)
const { gc } = globalThis as { gc?: () => void }
if (gc === undefined) throw new Error('run with --expose-gc')
const clock = systemClock
const at = lookAt(clock)

function memory(): { heapUsed: number; external: number } {
  for (let count = 0; count < 2; count += 1) gc?.()
  return process.memoryUsage()
}

/** What each of so many entries has taken since `before`, on the heap and outside it. */
function bytesEach(count: number, before: ReturnType<typeof memory>): string[] {
  const after = memory()
  const grownBy = [after.heapUsed - before.heapUsed, after.external - before.external]
  return grownBy.map((bytes) => (bytes / count).toFixed(0))
}

// The cache.

const events = new Events()
const quotes = {
  cacheEntries: entries,
  cacheBytes: 8e9,
  maxBytes: 16_384,
  minValidityMs: 0,
  refreshAheadMs: 0,
}
const config = { quotes }
const reader = new AnswerReader({ config, events, clockDifference: { note() {} } })
const expiresAtMs = clock.nowMs() + 3_600_000

const keyOfNumber = (number: number) =>
  keyOf(
    {
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
    },
    'bench',
  )

const idOf = (number: number) => number.toString(16).padStart(64, 'f')

/** Made like a quote of the gateway: by the same function, from an answer's bytes. */
function quoteNumbered(number: number): Quote {
  const body = Buffer.from(
    `{"fromAmount":{"assetId":"ETH","value":"${number}"},"id":"${idOf(number)}",` +
      `"pairId":"ETH_USDC","toAmount":{"assetId":"USDC","value":"289.645"},"expiry":${expiresAtMs}}`,
  )
  const date = new Date().toUTCString()
  const headers = [
    'Content-Type',
    'application/json',
    'Content-Length',
    String(body.length),
    'Date',
    date,
  ]
  const answer = {
    status: 200,
    reason: 'OK',
    rawHeaders: headers.map((part) => Buffer.from(part).toString('latin1')),
    body,
    sentAtMs: Date.now(),
    receivedAtMs: Date.now(),
    sentSteadyMs: performance.now(),
    receivedSteadyMs: performance.now(),
  }
  const read = reader.read(answer, String(number), at).answer
  if (read.kind !== 'quote') throw new Error(`a quote was not kept: ${read.why}`)
  return read.quote
}

function measureCache(): string[] {
  const cache = new QuoteCache({ config, events })
  /** The first quotes bring code and tables into memory, which are not theirs. */
  const uncounted = 500
  for (let number = 1; number <= uncounted; number += 1)
    cache.keep(keyOfNumber(number), quoteNumbered(number), at)
  // The ledger has the same text as the id of a quote, and it is counted there.
  const ids = Array.from({ length: entries + 1 }, (_, number) => flatText(idOf(number)))
  const before = memory()
  for (let number = uncounted + 1; number <= entries; number += 1) {
    const quote = quoteNumbered(number)
    cache.keep(
      keyOfNumber(number),
      quoteOf({ ...quote, id: ids[number] ?? '' }, quote),
      at,
    )
  }
  const bytes = bytesEach(entries - uncounted, before)
  if (cache.entries !== entries)
    throw new Error(`${cache.entries} quotes are kept, not ${entries}`)
  return ['cache', ...bytes]
}

// The ledger: all quotes of one pair, amount and application, and of many amounts.

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
  const ledger = new Ledger({ entries, clock })
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
      hasNumbers: false,
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
  const before = memory()
  const ledger = fill(filling)
  const bytes = bytesEach(entries, before)
  if (ledger.size !== entries)
    throw new Error(`${ledger.size} quotes are known, not ${entries}`)
  return [what, ...bytes]
}

const many = { amounts: 1, clients: 4_000 }
const rows = [
  measureCache(),
  measureLedger('ledger, one amount, most over', { ...many, lifeMs: shortLifeMs }),
  measureLedger('ledger, one amount, all live', { ...many, lifeMs: longLifeMs }),
  measureLedger('ledger, one amount, one client, most over', {
    ...many,
    clients: 1,
    lifeMs: shortLifeMs,
  }),
  measureLedger('ledger, one amount, one client, all live', {
    ...many,
    clients: 1,
    lifeMs: longLifeMs,
  }),
  measureLedger('ledger, 5,000 amounts, most over', {
    ...many,
    amounts: 5_000,
    lifeMs: shortLifeMs,
  }),
  measureLedger('ledger, 5,000 amounts, all live', {
    ...many,
    amounts: 5_000,
    lifeMs: longLifeMs,
  }),
]
const head = ['', 'bytes an entry', 'outside the heap']
process.stdout.write(`${table(head, rows)}\n`)
