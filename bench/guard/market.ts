import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { SettingValue } from '../../src/config/parse.ts'
import { startGateway } from '../../test/support/gateways/gateway.ts'
import { RawConnection, requestText } from '../shared/raw-client.ts'
import type { Random } from '../simulation/random.ts'

export const minuteMs = 60_000
export const lifeMs = 30_000
export const startMs = Date.UTC(2025, 10, 20)
const startPrice = 289.645
const connections = 8

/** Who asks or orders: `address` undefined is a client that no trusted proxy names. */
export interface Client {
  address: string | undefined
  country?: string
}

export interface Quote {
  id: string
  pair: string
  amount: string
  price: string
  expiresAtMs: number
}

export interface Ordered {
  /** Whether the quote was over. */
  isLate: boolean
  isSent: boolean
  /** By which share the provider's current price is below what the order states; 0 or less: it is not. */
  lessBy: number
}

export interface Step {
  atMs: number
  run(): Promise<unknown>
}

interface Provider {
  price(nowMs: number, pair: string): string
  /** What its `Date` says; its `expiry` is always right. */
  dateMs?(nowMs: number): number
}

export type Market = Awaited<ReturnType<typeof openMarket>>

/** A gateway on a socket with a provider behind it. The clock of both stands still until it is moved. */
export async function openMarket(provider: Provider, settings: Record<string, SettingValue> = {}) {
  let nowMs = startMs
  let given = 0
  let ordersSent = 0
  let ordersAnswered = 0

  function answer(request: IncomingMessage, response: ServerResponse): void {
    request.resume()
    response.setHeader('Date', new Date(provider.dateMs?.(nowMs) ?? nowMs).toUTCString())
    if (request.method === 'POST') {
      ordersSent += 1
      response.writeHead(422).end('{}')
      return
    }
    const [, pair = '', amount = ''] = /pairs\/([^/]+)\/quotes\?amount=(.+)/.exec(request.url ?? '') ?? []
    given += 1
    const quote = {
      id: `quote-${given}`,
      pairId: pair,
      fromAmount: { assetId: 'ETH', value: amount },
      toAmount: { assetId: 'USDC', value: provider.price(nowMs, pair) },
      expiry: nowMs + lifeMs,
    }
    response.end(JSON.stringify(quote))
  }

  const server = createServer({ keepAliveTimeout: 600_000 }, answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const gateway = await startGateway(
    {
      SWAP_BASE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      TRUST_PROXY: 'loopback',
      LOG_LEVEL: 'silent',
      ...settings,
    },
    { clock: { nowMs: () => nowMs, steadyMs: () => nowMs - startMs } },
  )
  const port = Number(new URL(gateway.url).port)
  const lines = await Promise.all(Array.from({ length: connections }, () => RawConnection.open(port)))
  const lastAnswers = lines.map(() => Promise.resolve<unknown>(undefined))
  let turn = 0

  /** Each connection carries one request at a time. */
  function send(text: string) {
    turn = (turn + 1) % connections
    const line = lines[turn] as RawConnection
    const answered = (lastAnswers[turn] as Promise<unknown>).then(() => line.ask(text))
    lastAnswers[turn] = answered
    return answered
  }

  const headersOf = ({ address, country }: Client) => [
    'App-Name: wallet',
    `Forwarded: for=${address ?? 'unknown'}`,
    ...(country === undefined ? [] : [`X-Country: ${country}`]),
  ]

  return {
    nowMs: () => nowMs,
    moveTo(ms: number) {
      nowMs = ms
    },
    async ask(client: Client, pair: string, amount = '0.1'): Promise<Quote> {
      const target = `/v3/pairs/${pair}/quotes?amount=${amount}`
      const { status, body } = await send(requestText({ target, headers: headersOf(client) }))
      if (status !== 200) throw new Error(`a quote was answered ${status}: ${body}`)
      const { id, toAmount, expiry } = JSON.parse(String(body))
      return { id, pair, amount, price: toAmount.value, expiresAtMs: expiry }
    },
    /** The provider declines each order, so that the quote is not used up and can be ordered again. */
    async order(client: Client, { pair, amount, expiresAtMs }: Quote, toAmount?: string): Promise<Ordered> {
      const isLate = nowMs >= expiresAtMs
      const lessBy = toAmount === undefined ? 0 : 1 - Number(provider.price(nowMs, pair)) / Number(toAmount)
      const stated = toAmount === undefined ? '' : `,"toAmount":${toAmount}`
      const { status, body } = await send(
        requestText({
          method: 'POST',
          target: '/v3/orders/float',
          headers: [...headersOf(client), 'Content-Type: application/json'],
          body: `{"pairId":"${pair}","fromAmount":${amount},"fromAddress":"0xf","toAddress":"0xt"${stated}}`,
        }),
      )
      const isRefused = status === 409 && String(body).includes(':quote-expired"')
      if (!isRefused && status !== 422) throw new Error(`an order was answered ${status}: ${body}`)
      ordersAnswered += isRefused ? 0 : 1
      return { isLate, isSent: !isRefused, lessBy }
    },
    async close() {
      if (ordersAnswered !== ordersSent) throw new Error(`${ordersSent} orders came, not ${ordersAnswered}`)
      for (const line of lines) line.close()
      await gateway.close()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export async function runInTurn(market: Market, steps: Step[]): Promise<void> {
  for (const { atMs, run } of steps.sort((one, other) => one.atMs - other.atMs)) {
    market.moveTo(atMs)
    await run()
  }
}

/** A price that moves every 10 s, over a day by about this share. */
export function walk(random: Random, aDay: number): (nowMs: number) => number {
  const moves = 8_640
  const prices = [startPrice]
  for (let move = 1; move <= moves; move += 1) {
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
    prices.push((prices.at(-1) as number) * Math.exp((normal * aDay) / Math.sqrt(moves)))
  }
  return (nowMs) => prices[Math.floor((nowMs - startMs) / 10_000)] as number
}
