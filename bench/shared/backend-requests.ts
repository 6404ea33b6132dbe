import type { RawRequest } from './raw-client.ts'

/**
 * The requests of a backend, the same for all contenders: App-Name and User-Agent are its own, each request has its own
 * id, and Forwarded names one of 200 clients.
 */
export const appHeaders = { 'App-Name': 'bench', 'User-Agent': 'bench/1.0' }
/** The load puts an amount in the place of the star. */
export const quoteTargetOf = (amount: string) =>
  `/v3/pairs/ETH_USDC/quotes?amount=${amount}`
export const quoteTarget = quoteTargetOf('0.1')
export const passTarget = '/checkouts/co_1'
export const orderTarget = '/v3/orders/float'
export const json = { 'Content-Type': 'application/json' }

/** Like a real float order, it has no quote id: the gateway matches it by pair, amounts and App-Name. */
export const orderBodyOf = (amount: string) =>
  `{"pairId":"ETH_USDC","fromAmount":${amount},"fromAddress":"0xfrom","toAddress":"0xto","toAmount":289.645}`
export const orderBody = orderBodyOf('0.1')

/** Each load begins where the last one ended. */
let firstNew = 1_000_000
const newPerLoad = 10_000_000

/** For the `*` of a load: numbers that no load of this process has had before. */
export function newNumbers(): string {
  const first = firstNew
  firstNew += newPerLoad
  return `${first} + sent`
}

/** Quotes that nothing has asked for: each is fetched and kept. */
export const newQuotes = () => ({ target: quoteTargetOf('*'), amount: newNumbers() })

const post = { method: 'POST', headers: { ...appHeaders, ...json } }
export const orders = { ...post, target: orderTarget, body: orderBody }
/** An order with a key of its own each. */
export const keyedOrders = () => ({
  ...orders,
  headers: { ...post.headers, 'Idempotency-Key': 'click-*' },
  amount: newNumbers(),
})
export const postsOf = (body: string) => ({ ...post, target: '/checkouts', body })

export const clients = 200
/** Prepared before the load and sent again and again: to make each when it is sent would slow wrk down. */
const requestsPrepared = 2_000
/** With large bodies fewer requests, or they would not fit into the processor's caches. */
const bytesPrepared = 16 * 2 ** 20

/** Header lines of request `number`, for requests that wrk does not make. */
export function headerLines(number = 0): string[] {
  const own = {
    'X-Request-Id': requestId(number),
    Forwarded: `for=${clientAddress(number)}`,
  }
  return Object.entries({ ...appHeaders, ...own }).map(
    ([name, value]) => `${name}: ${value}`,
  )
}

export const quoteProbe: RawRequest = { target: quoteTarget, headers: headerLines() }

function requestId(number: number): string {
  return `${number.toString(16).padStart(8, '0')}-7a1c-4e0b-9d2f-3b5a6c7d8e9f`
}

function clientAddress(number: number): string {
  return `198.51.100.${(number % clients) + 1}`
}

/** Lua for wrk: prepares the requests and sends them in turn. */
export function requestScript(bodyBytes: number): string {
  const prepared = preparedFor(bodyBytes)
  return `local requests, sent = {}, 0
function init()
  for number = 0, ${prepared - 1} do
    ${ownHeaders}
    requests[number] = wrk.format()
  end
end
function request()
  sent = sent + 1
  return requests[sent % ${prepared}]
end`
}

/**
 * The same for a request with a `*` (in a body as many as the amount has digits, so that its length is right), which the value of the Lua expression `amount` replaces; in it, `sent` counts the
 * requests. An amount always belongs to the same client.
 */
export function amountScript(amount: string): string {
  return `local heads, tails, sent = {}, {}, 0
function init()
  for number = 0, ${requestsPrepared - 1} do
    ${ownHeaders}
    local text = wrk.format()
    local from, to = text:find("%*+")
    heads[number], tails[number] = text:sub(1, from - 1), text:sub(to + 1)
  end
end
function request()
  sent = sent + 1
  local amount = ${amount}
  local number = amount % ${requestsPrepared}
  return heads[number] .. amount .. tails[number]
end`
}

/** In Lua, of request `number`. */
const ownHeaders = `wrk.headers["X-Request-Id"] = string.format("${requestId(0).replace('00000000', '%08x')}", number)
    wrk.headers["Forwarded"] = "for=198.51.100." .. (number % ${clients} + 1)`

/** A multiple of the clients, so that all of them ask equally often. */
function preparedFor(bodyBytes: number): number {
  const fitting = Math.floor(bytesPrepared / (bodyBytes + 1) / clients) * clients
  return Math.max(clients, Math.min(requestsPrepared, fitting))
}
