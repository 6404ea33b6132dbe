/**
 * The memory store by itself: memory of a quote, and time of a look-up.
 * Run: node --expose-gc --import tsx bench/compare/store.ts QUOTES
 */

import { setFlagsFromString } from 'node:v8'
import { systemClock } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { latin1Headers } from '../../src/http/headers.ts'
import { type KeyedAsk, QuoteKeys } from '../../src/quotes/ask.ts'
import { QuoteCache } from '../../src/quotes/cache.ts'
import { AnswerReader, type StoredQuote } from '../../src/quotes/quote.ts'

const quotes = Number(process.argv[2] ?? 100_000)
const { gc } = globalThis as { gc?: () => void }
if (gc === undefined) throw new Error('run with --expose-gc')
setFlagsFromString('--max-old-space-size=6144')

const clock = systemClock
const keys = new QuoteKeys('bench')
const expiresAtMs = clock.nowMs() + 3_600_000
/** The first quotes bring code and tables into memory, which are not theirs. */
const uncounted = 500

function requestFor(number: number): KeyedAsk {
  return {
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
  }
}

function key(number: number): string {
  return keys.of(requestFor(number))
}

const events = new Events()
const config = {
  quotes: {
    ...{ cacheEntries: quotes, cacheBytes: 8e9, maxBytes: 16_384 },
    ...{ minValidityMs: 0, refreshAheadMs: 0, obeyCacheControl: false },
  },
}
const reader = new AnswerReader({ config, clock, events })

/** Made like a stored quote of the gateway: by the same function, from an answer's bytes. */
function storedQuote(number: number): StoredQuote {
  const id = number.toString(16).padStart(64, 'f')
  const body = Buffer.from(
    `{"fromAmount":{"assetId":"ETH","value":"${number}"},"id":"${id}","pairId":"ETH_USDC",` +
      `"toAmount":{"assetId":"USDC","value":"289.645"},"expiry":${expiresAtMs}}`,
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

function memory(): { heapUsed: number; external: number } {
  for (let count = 0; count < 2; count += 1) gc?.()
  const { heapUsed, external } = process.memoryUsage()
  return { heapUsed, external }
}

const cache = new QuoteCache({ config, clock, events })
for (let number = 1; number <= uncounted; number += 1) cache.keep(key(number), storedQuote(number))
const before = memory()
let putMs = 0
for (let number = uncounted + 1; number <= quotes; number += 1) {
  const quote = storedQuote(number)
  const putBeganMs = performance.now()
  cache.keep(key(number), quote)
  putMs += performance.now() - putBeganMs
}
const setNanos = (putMs * 1e6) / (quotes - uncounted)
const after = memory()
if (cache.entries !== quotes) throw new Error(`${cache.entries} quotes are kept, not ${quotes}`)

const asked = Array.from({ length: 65_536 }, () => key(1 + Math.floor(Math.random() * quotes)))
let found = 0
const look = (times: number) => {
  for (let time = 0; time < times; time += 1)
    if (cache.get(asked[time & 65_535] ?? '') !== undefined) found += 1
}
look(200_000)
found = 0
const lookUps = 2_000_000
const getBeganMs = performance.now()
look(lookUps)
const getNanos = ((performance.now() - getBeganMs) * 1e6) / lookUps
if (found !== lookUps) throw new Error(`only ${found} of ${lookUps} were found`)

process.stdout.write(
  `${JSON.stringify({
    heapBytes: (after.heapUsed - before.heapUsed) / (quotes - uncounted),
    outsideBytes: (after.external - before.external) / (quotes - uncounted),
    getNanos,
    setNanos,
  })}\n`,
)
