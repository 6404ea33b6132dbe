import type { RawRequest } from './raw-client.ts'

/**
 * The requests of a backend, the same for all contenders: App-Name and User-Agent are its own, each request has its own
 * id, and Forwarded names one of 200 clients.
 */
export const appHeaders = { 'App-Name': 'bench', 'User-Agent': 'bench/1.0' }
export const quoteTarget = '/v3/pairs/ETH_USDC/quotes?amount=0.1'
/** The load puts an amount in the place of the star. */
export const newQuoteTarget = '/v3/pairs/ETH_USDC/quotes?amount=*'
export const passTarget = '/checkouts/co_1'
export const orderTarget = '/v3/orders/float'
export const json = { 'Content-Type': 'application/json' }

/** Like a real float order, it has no quote id: the gateway matches it by pair, amounts and App-Name. */
export const orderBody = JSON.stringify({
  pairId: 'ETH_USDC',
  fromAmount: 0.1,
  fromAddress: '0xfrom',
  toAddress: '0xto',
  toAmount: 289.645,
})

export const clients = 200
/** Prepared before the load and sent again and again: to make each when it is sent would slow wrk down. */
const requestsPrepared = 2_000
/** With large bodies fewer requests, or they would not fit into the processor's caches. */
const bytesPrepared = 16 * 2 ** 20

/** Header lines of request `number`, for requests that wrk does not make. */
export function headerLines(number = 0): string[] {
  const own = { 'X-Request-Id': requestId(number), Forwarded: `for=${clientAddress(number)}` }
  return Object.entries({ ...appHeaders, ...own }).map(([name, value]) => `${name}: ${value}`)
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
 * The same for a request with a `*`, which the value of the Lua expression `amount` replaces; in it, `sent` counts the
 * requests. An amount always belongs to the same client.
 */
export function amountScript(amount: string): string {
  return `local heads, tails, sent = {}, {}, 0
function init()
  for number = 0, ${requestsPrepared - 1} do
    ${ownHeaders}
    local text = wrk.format()
    local star = text:find("*", 1, true)
    heads[number], tails[number] = text:sub(1, star - 1), text:sub(star + 1)
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
