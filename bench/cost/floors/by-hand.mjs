/**
 * The contender by hand (compare/contenders/undici-lru.mjs) with what the gateway promises of a miss added step by step:
 * node by-hand.mjs PORT UPSTREAM-PORT LEVEL. levels.json has the names of the levels.
 */
import { hash, randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { LRUCache } from 'lru-cache'
import { Pool } from 'undici'

const level = Number(process.argv[4])
const hasKey = level >= 1
const namesClient = level >= 2
const sharesCalls = level >= 3
const hasDeadlines = level >= 4
const checksQuotes = level >= 5
const notesQuotes = level >= 6
const repeatsHeaders = level >= 7
const counts = level >= 8

const upstream = new Pool(`http://127.0.0.1:${process.argv[3]}`, {
  connections: 128,
  headersTimeout: hasDeadlines ? 10_000 : 0,
  bodyTimeout: hasDeadlines ? 30_000 : 0,
})
const quotes = new LRUCache({ max: 100_000 })
const calls = new Map()
const ledger = new Map()
const ledgerByTerms = new Map()
const served = { requests: 0, byStatus: {}, hits: 0, misses: 0 }
const buckets = new Float64Array(20)
const bounds = [
  0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000,
]

function askOf(request) {
  const { headers, url } = request
  const ask = {
    url,
    application: headers['app-name'],
    id: randomUUID(),
    address: '',
    key: '',
  }
  ask.key = `${url} ${ask.application}`
  if (!hasKey) return ask
  const amount = new URLSearchParams(url.slice(url.indexOf('?'))).get('amount') ?? ''
  if (!/^\d+(?:\.\d+)?$/.test(amount)) throw new Error('bad amount')
  ask.amount = amount
  ask.pair = url.split('/')[3]
  ask.address =
    /for="?([^;,"]+)/.exec(headers.forwarded ?? '')?.[1] ?? request.socket.remoteAddress
  ask.agent = headers['user-agent']
  ask.id = headers['x-request-id'] ?? ask.id
  const parts = [
    ask.pair,
    amount,
    ask.application,
    ask.agent,
    headers.authorization,
    ask.address,
  ]
  ask.key = hash(
    'sha256',
    parts.map((part) => `${part?.length}:${part}`).join(''),
    'base64url',
  )
  return ask
}

function headersOf(ask) {
  if (!namesClient) return undefined
  return {
    'app-name': ask.application,
    'user-agent': ask.agent,
    accept: 'application/json',
    'accept-encoding': 'identity',
    'x-request-id': ask.id,
    forwarded: `for=${ask.address}`,
    via: '1.1 by-hand',
  }
}

async function fetchQuote(ask) {
  const abort = hasDeadlines ? new AbortController() : undefined
  const timer = abort && setTimeout(() => abort.abort(), 15_000)
  const sent = { wall: Date.now(), steady: performance.now() }
  const answer = await upstream.request({
    method: 'GET',
    path: ask.url,
    headers: headersOf(ask),
    signal: abort?.signal,
  })
  const body = await answer.body.text()
  clearTimeout(timer)
  const json = JSON.parse(body)
  const quote = { body, expiresAtMs: json.expiry, headers: answer.headers }
  if (checksQuotes) check(json, ask, sent, quote)
  if (notesQuotes) note(json, ask, quote)
  quotes.set(ask.key, quote)
  return quote
}

function check(json, ask, sent, quote) {
  const { id, pairId, fromAmount, toAmount, expiry } = json
  const isQuote =
    [id, pairId, fromAmount?.assetId, toAmount?.assetId].every(
      (one) => typeof one === 'string',
    ) &&
    [fromAmount.value, toAmount.value].every((one) => /^\d+(?:\.\d+)?$/.test(one)) &&
    Number.isInteger(expiry) &&
    Math.abs(Number(fromAmount.value) / Number(ask.amount) - 1) < 0.01
  if (!isQuote) throw new Error('not a quote')
  const tookMs = performance.now() - sent.steady
  quote.aheadMs = Date.now() - performance.now()
  if (tookMs < 0 || expiry < sent.wall) throw new Error('over')
}

function note(json, ask, { expiresAtMs, aheadMs }) {
  const noted = {
    id: json.id,
    pair: json.pairId,
    amount: json.fromAmount.value,
    gives: json.toAmount.value,
    double: Number(json.toAmount.value),
    application: ask.application,
    address: ask.address,
    key: ask.key,
    expiresAtMs,
    aheadMs,
    notedAtMs: Date.now(),
  }
  ledger.set(noted.id, noted)
  const terms = `${noted.amount} ${noted.pair}`
  const others = ledgerByTerms.get(terms)
  if (others === undefined) ledgerByTerms.set(terms, [noted])
  else others.push(noted)
}

const ofOneExchange = new Set([
  'date',
  'age',
  'cache-control',
  'expires',
  'connection',
  'keep-alive',
])

function answerHeaders({ body, headers, expiresAtMs }, ask) {
  const maxAge = Math.floor((expiresAtMs - Date.now()) / 1_000)
  const own = {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': `private, max-age=${maxAge}`,
  }
  if (!repeatsHeaders) return own
  for (const [name, value] of Object.entries(headers))
    if (!ofOneExchange.has(name) && name !== 'content-type' && name !== 'content-length')
      own[name] = value
  own.Vary = 'App-Name, App-Version, User-Agent, Authorization, Forwarded'
  own['Cache-Status'] = `by-hand; fwd=uri-miss; stored; ttl=${maxAge}`
  own['X-Request-Id'] = ask.id
  return own
}

async function quoteFor(ask) {
  const known = quotes.get(ask.key)
  if (known !== undefined && known.expiresAtMs > Date.now()) return known
  if (!sharesCalls) return fetchQuote(ask)
  const underWay = calls.get(ask.key)
  if (underWay !== undefined) return underWay
  const call = fetchQuote(ask).finally(() => calls.delete(ask.key))
  calls.set(ask.key, call)
  return call
}

const server = createServer(async (request, response) => {
  const beganAtMs = performance.now()
  const ask = askOf(request)
  const quote = await quoteFor(ask)
  response.writeHead(200, answerHeaders(quote, ask))
  response.end(quote.body)
  if (!counts) return
  served.requests += 1
  served.misses += 1
  served.byStatus[200] = (served.byStatus[200] ?? 0) + 1
  const tookMs = performance.now() - beganAtMs
  for (const values of [
    tookMs,
    tookMs,
    quote.expiresAtMs - Date.now(),
    quote.expiresAtMs - Date.now(),
  ])
    buckets[bounds.findIndex((bound) => values <= bound) + 1] += 1
})
server.keepAliveTimeout = 65_000
server.listen(Number(process.argv[2]), '127.0.0.1', 4_096)
