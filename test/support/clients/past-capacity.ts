import type { ServerResponse } from 'node:http'
import { pause } from '../gateways/between.ts'
import { startGateway } from '../gateways/gateway.ts'
import { startRecordingUpstream } from '../upstreams/recording-upstream.ts'
import { ask, giveQuote, quoteBody } from './quotes.ts'

export type Load = 'quotes' | 'float orders' | 'quotes and float orders' | 'quotes and the rest'

export interface PastCapacityOptions {
  load: Load
  connections: number
  /** How long the provider takes. */
  callMs: number
  totalTimeoutMs: number
  requestsPerSecond: number
  requests: number
}

export interface Ended {
  status: number
  isQuote: boolean
}

export interface PastCapacity {
  ended: Ended[]
  /** What reached the provider. */
  sent: number
}

const headers = ['App-Name', 'wallet']

/** More requests than the connections to the provider can take, each evenly after the other, whatever becomes of them. */
export async function playPastCapacity(options: PastCapacityOptions): Promise<PastCapacity> {
  const provider = await startRecordingUpstream(({ method, target }, response) => {
    setTimeout(() => answer(method, target, response), options.callMs)
  })
  const gateway = await startGateway({
    SWAP_BASE_URL: provider.url,
    UPSTREAM_CONNECTIONS: options.connections,
    UPSTREAM_TOTAL_TIMEOUT_MS: options.totalTimeoutMs,
    breakerFailures: 5,
    LOG_LEVEL: 'silent',
  })
  const beganAtMs = performance.now()
  const ended: Ended[] = []
  async function send(number: number): Promise<void> {
    const request = requestOf(options.load, number)
    const { status } = await ask(gateway.url, request)
    ended.push({ status, isQuote: request.path.includes('/quotes') })
  }
  try {
    const all: Promise<void>[] = []
    for (let number = 0; number < options.requests; number += 1) {
      await pause(Math.max(0, beganAtMs + (number * 1_000) / options.requestsPerSecond - performance.now()))
      all.push(send(number))
    }
    await Promise.all(all)
    return { ended, sent: provider.requests.length }
  } finally {
    await gateway.close()
    await provider.close()
  }
}

function requestOf(load: Load, number: number) {
  if (load === 'quotes and the rest' && number % 2 === 0)
    return { path: '/v3/assets', method: 'GET', headers }
  const order = { path: '/v3/orders/float', method: 'POST', headers, body: '{}' }
  if (load === 'float orders' || (load === 'quotes and float orders' && number % 2 === 0)) return order
  // Each amount is asked for once, so that no quote comes from the cache and none is shared.
  return { path: `/v3/pairs/A_B/quotes?amount=${number + 1}`, method: 'GET', headers }
}

function answer(method: string, target: string, response: ServerResponse): void {
  const [, value = ''] = /\?amount=(.+)$/.exec(target) ?? []
  if (method === 'POST') response.writeHead(201).end('{}')
  else giveQuote(response, quoteBody({ pairId: 'A_B', fromAmount: { assetId: 'A', value } }))
}
