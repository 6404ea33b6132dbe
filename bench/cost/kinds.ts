import {
  appHeaders,
  json,
  orderBody,
  orderTarget,
  passTarget,
  quoteTarget,
} from '../shared/backend-requests.ts'
import type { Load } from '../shared/wrk.ts'

/** A new quote with each request: the amounts after `begin`. */
export const newQuotes = (begin: number) => ({
  target: '/v3/pairs/ETH_USDC/quotes?amount=*',
  headers: appHeaders,
  amount: `${begin} + sent`,
})

type Kind = { kind: string; load: Omit<Load, 'port' | 'seconds' | 'connections'> }

export function kinds(): Kind[] {
  return [
    { kind: 'quote from memory', load: { target: quoteTarget, headers: appHeaders } },
    {
      kind: 'float order, judged and sent',
      load: {
        target: orderTarget,
        method: 'POST',
        headers: { ...appHeaders, ...json },
        body: orderBody,
      },
    },
    { kind: 'payment passed through (GET)', load: { target: passTarget, headers: appHeaders } },
    {
      kind: 'payment passed through (POST, 1 KiB)',
      load: {
        target: '/checkouts',
        method: 'POST',
        headers: { ...appHeaders, ...json },
        body: 'x'.repeat(1_024),
      },
    },
    { kind: 'quote fetched and kept', load: newQuotes(1_000_000) },
  ]
}
