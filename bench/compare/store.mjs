/**
 * The memory store of the built gateway by itself: memory of a quote, and time of a look-up.
 * Run: node --expose-gc bench/compare/store.mjs DIST QUOTES
 */

import { join, resolve } from 'node:path'
import { setFlagsFromString } from 'node:v8'

const [dist = 'dist', quotesText = '100000'] = process.argv.slice(2)
const quotes = Number(quotesText)
if (typeof gc !== 'function') throw new Error('run with --expose-gc')
setFlagsFromString('--max-old-space-size=6144')
const load = (path) => import(join(resolve(dist), path))
const { createMemoryQuoteStore } = await load('quotes/memory-quote-store.js')
const { createQuoteKey } = await load('quotes/quote-key.js')
const { createQuoteReader } = await load('quotes/quote-answer.js')
const { latin1Headers } = await load('upstream/headers.js')

const keyOf = createQuoteKey({ salt: 'bench' })
const expiresAtMs = Date.now() + 3_600_000

function key(number) {
  const amount = String(number)
  return keyOf({
    pair: 'ETH_USDC',
    amount,
    canonicalAmount: amount,
    keyedHeaders: [
      ['app-name', 'bench'],
      ['app-version', undefined],
      ['user-agent', 'bench/1.0'],
      ['authorization', undefined],
    ],
    partition: '127.0.0.1',
    query: '',
    target: `/v3/pairs/ETH_USDC/quotes?amount=${amount}`,
  })
}

const readAnswer = createQuoteReader({
  clock: { nowMs: () => Date.now() },
  providerClock: { observe() {}, latestMs: () => Date.now(), earliestMs: () => Date.now() },
  maxBytes: 16_384,
  obeyCacheControl: false,
  onQuote() {},
  onIgnoredCacheControl() {},
})

/** Made the way an upstream's answer becomes a stored quote: from bytes, by the same function. */
async function storedQuote(number) {
  const id = number.toString(16).padStart(64, 'f')
  const body = Buffer.from(
    `{"fromAmount":{"assetId":"ETH","value":"0.1"},"id":"${id}","pairId":"ETH_USDC",` +
      `"toAmount":{"assetId":"USDC","value":"289.645"},"expiry":${expiresAtMs}}`,
  )
  const rawHeaders = latin1Headers(
    ['Content-Type', 'application/json', 'Content-Length', String(body.length), 'Date', 'now'].map((part) =>
      Buffer.from(part),
    ),
  )
  const answer = {
    status: 200,
    reason: 'OK',
    rawHeaders,
    body,
    sentAtMs: Date.now(),
    receivedAtMs: Date.now(),
  }
  const { stored } = await readAnswer({ answer: Promise.resolve(answer) }, {})
  return stored
}

function memory() {
  gc()
  gc()
  const { heapUsed, external } = process.memoryUsage()
  return { heapUsed, external }
}

const store = createMemoryQuoteStore({ maxEntries: quotes, maxBytes: 8e9 })
// Code and caches that the first quotes bring along are nobody's.
for (let number = 1; number <= 500; number += 1) store.set(key(number), await storedQuote(number))
const before = memory()
let putMs = 0
for (let number = 501; number <= quotes; number += 1) {
  const quote = await storedQuote(number)
  const putBeganMs = performance.now()
  store.set(key(number), quote)
  putMs += performance.now() - putBeganMs
}
const setNanos = (putMs * 1e6) / (quotes - 500)
const after = memory()
if (store.entries !== quotes) throw new Error(`${store.entries} quotes are kept, not ${quotes}`)

const asked = Array.from({ length: 65_536 }, () => key(1 + Math.floor(Math.random() * quotes)))
let found = 0
const look = (times) => {
  for (let time = 0; time < times; time += 1) if (store.get(asked[time & 65_535]) !== undefined) found += 1
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
    heapBytes: (after.heapUsed - before.heapUsed) / (quotes - 500),
    outsideBytes: (after.external - before.external) / (quotes - 500),
    getNanos,
    setNanos,
  })}\n`,
)
