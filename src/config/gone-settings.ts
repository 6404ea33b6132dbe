import type { SettingProblem } from './parse.ts'
import type { SettingName } from './settings.ts'

/** Settings of earlier versions, each with what stands in its place. */
export const goneSettings: Readonly<Record<string, string>> = {
  UPSTREAM_CONNECT_TIMEOUT_MS: 'connecting to an upstream may take 3 s',
  UPSTREAM_BODY_TIMEOUT_MS: 'an answer may pause for 30 s',
  UPSTREAM_QUEUE: 'eight times UPSTREAM_CONNECTIONS may wait',
  UPSTREAM_RETRIES: 'what the upstream cannot have seen is sent once more',
  BREAKER_FAILURES: 'a breaker opens on five failures in a row',
  BREAKER_OPEN_MS: 'an open breaker lets one request try after 5 s',
  REQUEST_HEAD_TIMEOUT_MS: 'a request head may take 10 s',
  REQUEST_BODY_IDLE_TIMEOUT_MS: 'a request body may pause for 30 s',
  QUOTE_CACHE_BYTES: 'quotes take at most 64 MiB, and QUOTE_CACHE_ENTRIES lowers that',
  QUOTE_MAX_BYTES: 'an answer over 16 KiB is relayed and not kept',
  QUOTE_OBEY_CACHE_CONTROL: "a quote's own expiry decides, whatever its Cache-Control says",
  QUOTE_EVICT_ON_ORDER: 'a quote that an order has used is not served again',
  RATE_LIMIT_HITS: 'quotes from the cache or from a call in flight do not count',
  ORDER_LOG: 'ACCESS_LOG=orders logs the decisions about orders, and ACCESS_LOG=on does too',
  WEBHOOKS_CA_FILE: 'webhooks use PAYMENTS_CA_FILE',
  WEBHOOKS_CERT_FILE: 'webhooks use PAYMENTS_CERT_FILE',
  WEBHOOKS_KEY_FILE: 'webhooks use PAYMENTS_KEY_FILE',
  VALKEY_LOCK_WAIT_MS: 'a replica waits for 3 s for a quote that another one fetches',
}

/** Values of earlier versions, the value that each counts as, and why. */
const goneValues: readonly { name: SettingName; value: string; countsAs: string; why: string }[] = [
  {
    name: 'QUOTE_PARTITION',
    value: 'prefix',
    countsAs: 'ip',
    why: 'neighbouring addresses may be in different places',
  },
]

/** Replaces values of earlier versions, with one problem for each that was given. */
export function replaceGoneValues(given: ReadonlyMap<string, string>): {
  texts: ReadonlyMap<string, string>
  gone: Required<SettingProblem>[]
} {
  const texts = new Map(given)
  const gone: Required<SettingProblem>[] = []
  for (const { name, value, countsAs, why } of goneValues) {
    if (given.get(name)?.toLowerCase() !== value) continue
    texts.set(name, countsAs)
    const message = `${name}=${value} was removed and counts as ${countsAs}: ${why}.`
    gone.push({ name, value, expected: countsAs, message })
  }
  return { texts, gone }
}
