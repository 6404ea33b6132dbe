import type { ServerResponse } from 'node:http'
import { pause, recordingUpstream } from '../gateways/between.ts'
import type { Recorded, RecordingUpstream } from './recording-upstream.ts'

/** What a quote of these pairs states: nine digits and more, seven with two decimals, or sometimes no expiry. */
export const pairs = { digits: 'ETH_USDC', cents: 'BTC_USDC', odd: 'ODD_USDC' } as const

/** The first quote for an amount of the odd pair lives for so long, and all that come after it cannot be read. */
export const oddLifeMs = 1_500

export interface MovingPrices extends RecordingUpstream {
  /** How often each order arrived, by its `reference`. */
  arrived: ReadonlyMap<string, number>
}

/** A provider whose quotes live for 2 to 6 s, none at the price of another. */
export async function movingPrices(): Promise<MovingPrices> {
  const arrived = new Map<string, number>()
  const prices = new Set<string>()
  const oddAmounts = new Set<string>()
  let price = 64_000
  let given = 0

  function nextPrice(decimals: number): string {
    for (;;) {
      price *= 0.998 + Math.random() * 0.004
      const stated = price.toFixed(decimals)
      if (stated.endsWith('0') || prices.has(stated)) continue
      prices.add(stated)
      return stated
    }
  }

  function quoteFor(target: string): string {
    const { pathname, searchParams } = new URL(target, 'http://provider')
    const pairId = pathname.split('/')[3] ?? ''
    const amount = searchParams.get('amount') ?? ''
    const isOdd = pairId === pairs.odd
    const isReadable = !isOdd || !oddAmounts.has(amount)
    if (isOdd) oddAmounts.add(amount)
    given += 1
    return JSON.stringify({
      id: `quote-${given}`,
      pairId,
      fromAmount: { assetId: pairId.split('_')[0], value: amount },
      toAmount: { assetId: 'USDC', value: nextPrice(pairId === pairs.digits ? 6 : 2) },
      ...(isReadable && {
        expiry:
          Date.now() + (isOdd ? oddLifeMs : 2_000 + Math.floor(Math.random() * 4_000)),
      }),
    })
  }

  async function answer(
    { method, target, body }: Recorded,
    response: ServerResponse,
  ): Promise<void> {
    if (method === 'POST') {
      const { reference } = JSON.parse(body.toString())
      arrived.set(reference, (arrived.get(reference) ?? 0) + 1)
    }
    await pause(2)
    response.setHeader('Content-Type', 'application/json')
    if (method === 'POST') response.writeHead(201).end('{"id":"order"}')
    else response.end(quoteFor(target))
  }

  const upstream = await recordingUpstream(
    (request, response) => void answer(request, response),
  )
  return { ...upstream, arrived }
}
