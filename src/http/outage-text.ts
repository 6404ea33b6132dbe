import type { OpenBreaker, UpstreamFailure } from './upstream-failure.ts'

export const nameOfApi: Readonly<Record<string, string>> = {
  swap: 'swap API',
  payments: 'payments API',
  webhooks: 'webhook receiver',
}

const detailOfBreaker: Record<OpenBreaker, string> = {
  connections: 'Connections to the API keep failing.',
  orders: 'Orders keep failing at the API.',
  rest: 'Requests other than quotes and orders keep failing at the API.',
  pair: 'Quotes of this pair keep failing at the API.',
}

/** What has failed; undefined: no breaker is open. */
export function outageText({ breaker, outage }: UpstreamFailure): string | undefined {
  if (breaker === undefined) return undefined
  if (outage?.pairsAskedFor === undefined) return detailOfBreaker[breaker]
  const { stoppedPairs, pairsAskedFor } = outage
  return `All quotes that were asked for fail at the API (${pairsText(stoppedPairs, pairsAskedFor)}).`
}

/** Of pairs that all fail, those that have stopped. */
export function pairsText(stopped: number, askedFor: number): string {
  const pairs = `${stopped} of ${askedFor} pair${askedFor === 1 ? '' : 's'}`
  return stopped < askedFor ? `${pairs} stopped` : pairs
}

/** Only what has succeeded since the outage began: a client would try the rest without success. */
export function servedText({ upstream, breaker, outage }: UpstreamFailure): string {
  const names = (outage?.stillServed ?? []).map((traffic) => {
    if (traffic === 'quotes') return breaker === 'pair' ? 'quotes of other pairs' : 'quotes'
    return traffic === 'orders' ? 'orders' : `the rest of the ${nameOfApi[upstream] ?? 'upstream'}`
  })
  const listed = names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
  return listed === '' ? '' : ` Still served: ${listed}.`
}
