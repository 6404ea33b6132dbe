import type { ServerResponse } from 'node:http'
import { pause } from '../gateways/between.ts'
import { startGateway } from '../gateways/gateway.ts'
import { startRecordingUpstream } from '../upstreams/recording-upstream.ts'
import { ask, giveQuote, quoteBody } from './quotes.ts'

export type Asked = 'orders' | 'rest' | 'quotes'

export interface FailingShareOptions {
  asked: Asked
  /** Of each 20 requests that reach the provider, how many it answers with 503 at once. */
  failing: number
  /** How long the others take. */
  answersAfterMs: number
  bursts: number
}

export interface Played {
  sent: number
  cameThrough: number
  /** When each request reached the provider, in ms after the first did. */
  arrivedAfterMs: number[]
}

const burst = 20
const everyMs = 1_000
const headers = ['App-Name', 'wallet']

/** Which of each 20 requests fail: others in each 20, and the same in every run. */
function failures(failing: number): () => boolean {
  let random = 1
  const upTo = (limit: number) => {
    // The constants of Numerical Recipes.
    random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((random / 2 ** 32) * limit)
  }
  let next: boolean[] = []
  return () => {
    if (next.length === 0) next = Array.from({ length: burst }, (_none, index) => index < failing)
    return next.splice(upTo(next.length), 1)[0] === true
  }
}

/** A burst of 20 requests each second: 20 orders, 20 requests for other things, or a quote of each of 20 pairs. */
export async function playFailingShare(options: FailingShareOptions): Promise<Played> {
  const fails = failures(options.failing)
  const arrivals: number[] = []
  const provider = await startRecordingUpstream(({ method, target }, response) => {
    arrivals.push(performance.now())
    if (fails()) response.writeHead(503).end()
    else setTimeout(() => answer(method, target, response), options.answersAfterMs)
  })
  const gateway = await startGateway({
    SWAP_BASE_URL: provider.url,
    breakerFailures: 5,
    LOG_LEVEL: 'silent',
  })
  let sent = 0
  let cameThrough = 0
  async function send(index: number): Promise<void> {
    sent += 1
    const { status } = await ask(gateway.url, requestOf(options.asked, index, sent))
    if (status < 300) cameThrough += 1
  }
  try {
    const all: Promise<void>[] = []
    const beganAtMs = performance.now()
    for (let count = 1; count <= options.bursts; count += 1) {
      for (let index = 0; index < burst; index += 1) all.push(send(index))
      await pause(Math.max(0, beganAtMs + count * everyMs - performance.now()))
    }
    await Promise.all(all)
    const [first = 0] = arrivals
    return { sent, cameThrough, arrivedAfterMs: arrivals.map((at) => at - first) }
  } finally {
    await gateway.close()
    await provider.close()
  }
}

function requestOf(asked: Asked, index: number, number: number): Parameters<typeof ask>[1] {
  if (asked === 'rest') return { path: '/v3/assets', headers }
  // Each amount is asked for once, so that no quote comes from the cache.
  if (asked === 'quotes') return { path: `/v3/pairs/A_B${index}/quotes?amount=${number}`, headers }
  return { path: '/v3/orders/float', method: 'POST', headers, body: '{}' }
}

function answer(method: string, target: string, response: ServerResponse): void {
  const [, pairId, value = ''] = /^\/v3\/pairs\/(.+)\/quotes\?amount=(.+)$/.exec(target) ?? []
  if (method === 'POST') response.writeHead(201).end('{}')
  else if (pairId === undefined) response.end('[]')
  else giveQuote(response, quoteBody({ pairId, fromAmount: { assetId: 'A', value } }))
}
