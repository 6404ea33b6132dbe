import type { ServerResponse } from 'node:http'
import type { SettingValue } from '../../../src/config/problems.ts'
import type { ProgramLogger } from '../../../src/process/logger.ts'
import { ask, giveQuote, quoteBody } from '../clients/quotes.ts'
import { gatewayWith, recordingUpstream } from './between.ts'

/**
 * Every look at this gateway's clock costs 10 ms. The `amount` that is asked for says how many milliseconds its quote
 * lives: shorter than all the looks, and it has expired on arrival, or later.
 */
export async function quotesThatExpireWaiting(
  settings: Record<string, SettingValue> = {},
  options: { logger?: ProgramLogger } = {},
) {
  /** How many quotes the provider gives before it answers no more. */
  const provider = { answersLeft: Number.POSITIVE_INFINITY }
  let nowMs = Date.now()
  const clock = {
    nowMs: () => {
      nowMs += 10
      return nowMs
    },
  }
  /** Gives the quote that the target asks for. */
  const give = (target: string, response: ServerResponse) => {
    const lifeMs = Number(/amount=(\d+)/.exec(target)?.[1] ?? 0)
    giveQuote(response, quoteBody({ expiry: nowMs + lifeMs }), ['Date', 'none'])
  }
  const upstream = await recordingUpstream(({ target }, response) => {
    provider.answersLeft -= 1
    if (provider.answersLeft >= 0) give(target, response)
  })
  const gateway = await gatewayWith(
    { SWAP_BASE_URL: upstream.url, ...settings },
    { clock, ...options },
  )
  const lives: number[] = []
  for (let lifeMs = 5; lifeMs < 400; lifeMs += 10) {
    const { status } = await ask(gateway.url, {
      path: `/v3/pairs/ETH_USDC/quotes?amount=${lifeMs}`,
    })
    if (status === 504) lives.push(lifeMs)
  }
  /** How long a quote lives that is live when it arrives, and not when it is to be written. */
  const lifeMs = lives[Math.floor(lives.length / 2)]
  if (lifeMs === undefined)
    throw new Error('no quote expired between its arrival and its answer')
  return { url: gateway.url, upstream, lifeMs, give, provider }
}
