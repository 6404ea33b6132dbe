/**
 * At most 200 lines that keep the promises of the good way of a hit, a miss and an order, and of no other way: what is
 * refused, fails, hangs or comes late is not thought of. node promises.mjs PORT UPSTREAM-PORT
 */
import { hash } from 'node:crypto'
import { createServer } from 'node:http'
import { LRUCache } from 'lru-cache'
import { Pool } from 'undici'

const upstream = new Pool(`http://127.0.0.1:${process.argv[3]}`, {
  connections: 128,
  headersTimeout: 10_000,
  bodyTimeout: 30_000,
})
const totalMs = 15_000
const quotes = new LRUCache({ max: 100_000 })
const calls = new Map()
const ledgerById = new Map()
const ledgerByTerms = new Map()
const used = new Map()
const tally = { hits: 0, misses: 0, orders: 0, quotes: 0 }
const durations = new Float64Array(18)
const bounds = [
  0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000,
  30_000,
]

const hopByHop = new Set([
  'host',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
])
const ofOneExchange = new Set([
  ...hopByHop,
  'date',
  'age',
  'cache-control',
  'expires',
  'content-length',
  'set-cookie',
])
const decimal = /^\d+(?:\.\d+)?$/
const isText = (value) => typeof value === 'string' && value !== '' && value.length <= 256

function kept(raw, drops) {
  const headers = []
  for (let at = 0; at < raw.length; at += 2)
    if (!drops.has(raw[at].toLowerCase())) headers.push(raw[at], raw[at + 1])
  return headers
}

function linesOf(headers) {
  let lines = ''
  for (let at = 0; at < headers.length; at += 2)
    lines += `${headers[at]}: ${headers[at + 1]}\r\n`
  return lines
}

/** Whose request it is: the address that the trusted backend names, and what else tells quotes apart. */
function clientOf({ headers, socket }) {
  return {
    application: headers['app-name'],
    agent: headers['user-agent'] ?? '',
    authorization: headers.authorization ?? '',
    address:
      /^for="?([^;,"]+)"?$/.exec(headers.forwarded ?? '')?.[1] ?? socket.remoteAddress,
    requestId: headers['x-request-id'] ?? hash('sha256', `${Math.random()}`, 'hex'),
  }
}

const field = (text) => `${text.length}:${text}`

function askOf(request, client) {
  const [path, query = ''] = request.url.split('?')
  const amount = /(?:^|&)amount=([^&]*)/.exec(query)?.[1] ?? ''
  if (!decimal.test(amount) || client.application === undefined)
    throw new Error('bad request')
  const pair = path.split('/')[3]
  const { application, agent, authorization, address } = client
  const text = [pair, amount, application, agent, authorization, address]
    .map(field)
    .join('')
  return {
    pair,
    amount,
    target: request.url,
    key: hash('sha256', text, 'base64url'),
    client,
  }
}

/** One request and its whole answer, by one deadline. */
function send(request) {
  return new Promise((resolve, reject) => {
    let abort
    let answer
    const deadline = setTimeout(() => abort(new Error('too late')), totalMs)
    upstream.dispatch(request, {
      onConnect(giveUp) {
        abort = giveUp
        request.sent?.()
      },
      onHeaders(status, headers, _resume, reason) {
        const raw = headers.map((part) => part.latin1Slice())
        answer = {
          status,
          reason,
          raw,
          body: undefined,
          wallMs: Date.now(),
          steadyMs: performance.now(),
        }
        return true
      },
      onData(chunk) {
        answer.body =
          answer.body === undefined ? chunk : Buffer.concat([answer.body, chunk])
        return true
      },
      onComplete() {
        clearTimeout(deadline)
        resolve(answer)
      },
      onError: reject,
    })
  })
}

function callHeaders({ application, agent, address, requestId }) {
  return [
    'App-Name',
    application,
    'User-Agent',
    agent,
    'Accept',
    'application/json',
    'Accept-Encoding',
    'identity',
    'X-Request-Id',
    requestId,
    'Forwarded',
    `for=${address}`,
    'Via',
    '1.1 promises',
  ]
}

/** Fetches, checks, notes and keeps a quote. */
async function fetchQuote(ask) {
  const headers = callHeaders(ask.client)
  const answer = await send({ method: 'GET', path: ask.target, headers, body: null })
  const { id, pairId, fromAmount, toAmount, expiry } = JSON.parse(answer.body.utf8Slice())
  const isQuote =
    isText(id) &&
    isText(pairId) &&
    isText(fromAmount?.assetId) &&
    isText(toAmount?.assetId)
  if (!isQuote || !decimal.test(fromAmount.value) || !decimal.test(toAmount.value))
    throw new Error('not a quote')
  if (Math.abs(fromAmount.value / ask.amount - 1) > 0.01 || expiry <= answer.wallMs)
    throw new Error('not this quote')
  const quote = {
    id,
    pairId,
    from: fromAmount.value,
    to: toAmount.value,
    expiry,
    aheadMs: answer.wallMs - answer.steadyMs,
    body: answer.body.latin1Slice(),
    lines: linesOf(kept(answer.raw, ofOneExchange)),
  }
  const note = {
    id,
    pairId,
    from: quote.from,
    to: quote.to,
    double: Number(quote.to),
    expiry,
    aheadMs: quote.aheadMs,
    application: ask.client.application,
    address: ask.client.address,
    key: ask.key,
    notedAtMs: answer.wallMs,
  }
  ledgerById.set(id, note)
  const terms = `${note.from} ${pairId}`
  const others = ledgerByTerms.get(terms)
  if (others === undefined) ledgerByTerms.set(terms, [note])
  else others.push(note)
  if (!used.has(id)) quotes.set(ask.key, quote)
  calls.delete(ask.key)
  return quote
}

/** Until its end, by the wall clock and by the steady one. */
const leftMs = ({ expiry, aheadMs }) =>
  expiry - Math.max(Date.now(), performance.now() + aheadMs)

const vary = 'Vary: App-Name, App-Version, User-Agent, Authorization, Forwarded\r\n'
const keepAlive = 'Connection: keep-alive\r\nKeep-Alive: timeout=65\r\n'

function write(response, head, body, beganAtMs) {
  response.socket.write(`${head}${keepAlive}\r\n${body}`, 'latin1')
  // What Node's server waits for before it goes on with the connection.
  response.emit('finish')
  const tookMs = performance.now() - beganAtMs
  const at = bounds.findIndex((bound) => tookMs <= bound)
  durations[at === -1 ? bounds.length : at] += 1
}

function answerQuote(response, ask, quote, how, beganAtMs) {
  const ttl = Math.floor(leftMs(quote) / 1_000)
  tally.quotes += 1
  const own = `Cache-Control: private, max-age=${ttl}\r\nCache-Status: promises; ${how}; ttl=${ttl}\r\n`
  const date = `Date: ${new Date().toUTCString()}\r\n`
  const head = `HTTP/1.1 200 OK\r\n${quote.lines}Content-Length: ${quote.body.length}\r\n${vary}${own}${date}`
  write(
    response,
    `${head}X-Request-Id: ${ask.client.requestId}\r\n`,
    quote.body,
    beganAtMs,
  )
}

function quoteRequest(request, response, beganAtMs) {
  const ask = askOf(request, clientOf(request))
  const cached = quotes.get(ask.key)
  if (cached !== undefined && leftMs(cached) > 5_000) {
    tally.hits += 1
    answerQuote(response, ask, cached, 'hit', beganAtMs)
    return
  }
  tally.misses += 1
  const call = calls.get(ask.key) ?? fetchQuote(ask)
  calls.set(ask.key, call)
  call.then((quote) =>
    answerQuote(response, ask, quote, 'fwd=uri-miss; stored', beganAtMs),
  )
}

/** The quotes of the order's terms: one that lives decides, and the last to end of those. */
function judge({ pairId, fromAmount, toAmount }) {
  const meant = ledgerByTerms.get(`${fromAmount} ${pairId}`) ?? []
  const live = meant.filter((note) => leftMs(note) > 0 && note.double >= Number(toAmount))
  const [last] = live.sort((one, other) => other.expiry - one.expiry)
  if (last === undefined && meant.length > 0) throw new Error('expired')
  return last
}

async function orderRequest(request, response, body, beganAtMs) {
  const client = clientOf(request)
  const quote = judge(JSON.parse(body.utf8Slice()))
  const headers = kept(
    request.rawHeaders,
    new Set([...hopByHop, 'forwarded', 'content-length']),
  )
  headers.push('Forwarded', `for=${client.address}`, 'Via', '1.1 promises')
  const answer = await send({ method: 'POST', path: request.url, headers, body })
  if (quote !== undefined && answer.status < 300 && !used.has(quote.id)) {
    used.set(quote.id, quote.expiry)
    quotes.delete(quote.key)
  }
  tally.orders += 1
  const lines = linesOf(kept(answer.raw, hopByHop))
  const head = `HTTP/1.1 ${answer.status} ${answer.reason}\r\n${lines}X-Request-Id: ${client.requestId}\r\n`
  write(response, head, answer.body.latin1Slice(), beganAtMs)
}

const server = createServer((request, response) => {
  const beganAtMs = performance.now()
  if (request.method === 'GET') return quoteRequest(request, response, beganAtMs)
  let body
  request.on('data', (chunk) => {
    body = body === undefined ? chunk : Buffer.concat([body, chunk])
  })
  request.on('end', () => orderRequest(request, response, body, beganAtMs))
})
server.keepAliveTimeout = 65_000
server.listen(Number(process.argv[2]), '127.0.0.1', 4_096)
