import type { ServerResponse } from 'node:http'
import { expect } from 'vitest'
import type { SettingValue } from '../../../src/config/problems.ts'
import type { GatewayOverrides } from '../../../src/gateway/types.ts'
import { gatewayWith, recordingUpstream } from '../gateways/between.ts'
import type { RunningGateway } from '../gateways/gateway.ts'
import type { Recorded, RecordingUpstream } from '../upstreams/recording-upstream.ts'
import { ask, counted, createTestClock, giveQuote, quoteBody } from './quotes.ts'
import { type ParsedAnswer, rawExchange } from './raw-connection.ts'

export const floatPath = '/v3/orders/float'

export interface GivenQuote {
  id: string
  pairId: string
  fromAmount: { assetId: string; value: string }
  toAmount: { assetId: string; value: string }
  expiry: number
  cacheStatus: string
}

export interface Provider {
  /** How far its clock is ahead of ours. */
  offsetMs: number
  lifeMs: number
  /** What its quotes say besides. */
  quote: Record<string, unknown>
  quoteHeaders: string[]
  takeOrder(request: Recorded, response: ServerResponse): void
}

/** What a caller does at a gateway. */
export interface OrderClient {
  quote(
    amount?: string,
    options?: { path?: string; headers?: readonly string[] },
  ): Promise<GivenQuote>
  order(body: string | Buffer | object, options?: Post): Promise<ParsedAnswer>
}

export interface OrderStage extends OrderClient {
  gateway: RunningGateway
  upstream: RecordingUpstream
  clock: ReturnType<typeof createTestClock>
  provider: Provider
  /** What reached the provider besides quote calls. */
  arrived(): Recorded[]
  decided(decision: string, reason: string): Promise<number>
}

export interface Post {
  path?: string
  /** Whole lines; `Host` and the length of the body are there anyway. */
  headers?: readonly string[]
  method?: string
}

/** The bytes of a request with a body, as a caller writes them. */
export function post(body: string | Buffer, options: Post = {}): Buffer {
  const { path = floatPath, headers = ['App-Name: wallet'], method = 'POST' } = options
  const bytes = Buffer.from(body)
  const framed = headers.some((line) =>
    /^(?:content-length|transfer-encoding):/i.test(line),
  )
  const lines = [
    'Host: g',
    ...headers,
    ...(framed ? [] : [`Content-Length: ${bytes.length}`]),
  ]
  return Buffer.concat([
    Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`, 'latin1'),
    bytes,
  ])
}

/**
 * A provider that remembers what reached it, and a clock that stands still until it is set. The provider dates its
 * answers by that clock, or by one that is `offsetMs` ahead.
 */
export async function clockedProvider() {
  const clock = createTestClock()
  const provider: Provider = {
    offsetMs: 0,
    lifeMs: 30_000,
    quote: {},
    quoteHeaders: [],
    takeOrder: (_request, response) => {
      response.writeHead(201, { 'Content-Type': 'application/json' })
      response.end('{"id":"order-1"}')
    },
  }
  const nowMs = () => clock.nowMs() + provider.offsetMs
  const dateNow = () => new Date(nowMs()).toUTCString()
  const upstream = await recordingUpstream((request, response) => {
    if (request.method !== 'GET') {
      response.setHeader('Date', dateNow())
      return provider.takeOrder(request, response)
    }
    const body = quoteBody({ expiry: nowMs() + provider.lifeMs, ...provider.quote })
    giveQuote(response, body, ['Date', dateNow(), ...provider.quoteHeaders])
  })
  const arrived = () => upstream.requests.filter(({ method }) => method !== 'GET')
  return { clock, provider, upstream, arrived }
}

export function orderClient({ url }: Pick<RunningGateway, 'url'>): OrderClient {
  return {
    async quote(amount = '0.1', { path, headers } = {}) {
      const asked = {
        path: path ?? `/v3/pairs/ETH_USDC/quotes?amount=${amount}`,
        ...(headers && { headers }),
      }
      const { status, body, headers: received } = await ask(url, asked)
      expect(status).toBe(200)
      const given = JSON.parse(Buffer.from(body, 'latin1').toString())
      return { ...given, cacheStatus: String(received['cache-status']) }
    },
    order: (body, options) =>
      rawExchange(
        url,
        post(
          typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
          options,
        ),
      ),
  }
}

/** A gateway whose clock is that of its provider. */
export async function orderStage(
  settings: Record<string, SettingValue | undefined> = {},
  overrides: Omit<GatewayOverrides, 'clock'> = {},
): Promise<OrderStage> {
  const stage = await clockedProvider()
  const all = { SWAP_BASE_URL: stage.upstream.url, ...settings }
  const gateway = await gatewayWith(all, { ...overrides, clock: stage.clock })
  return {
    ...stage,
    gateway,
    ...orderClient(gateway),
    decided: (decision, reason) =>
      counted(
        gateway,
        `quotegate_float_orders_total{decision="${decision}",reason="${reason}"}`,
      ),
  }
}

/** What a real caller sends: no quote id, amounts as JSON numbers. */
export function termsOf(quote: GivenQuote): Record<string, unknown> {
  return {
    pairId: quote.pairId,
    fromAmount: Number(quote.fromAmount.value),
    fromAddress: '0xf',
    toAddress: '0xt',
    toAmount: Number(quote.toAmount.value),
  }
}
