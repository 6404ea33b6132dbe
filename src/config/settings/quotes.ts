import { facts } from '../setting-facts.ts'
import {
  metricsPairs,
  milliseconds,
  oneOf,
  placeHeaders,
  quoteKeyHeaders,
  wholeNumber,
} from '../value-schemas.ts'

export const quoteSettings = {
  QUOTE_PARTITION: oneOf(['ip', 'header', 'none'])
    .prefault('ip')
    .register(facts, {
      meaning:
        'Which clients may share a cached quote. ip: clients of one address. header: clients of one place, as a ' +
        'trusted proxy names it in QUOTE_PARTITION_HEADER; a hit then ignores availability rules finer than that ' +
        'place (a state, a sanctioned region). none: all clients; right only where the provider never refuses by ' +
        'place. The more clients share, the fewer calls, and the more often a hit shows a quote to a client ' +
        'that the provider would have refused. An order is judged by the quotes of its whole partition (docs/orders.md).',
    }),
  QUOTE_PARTITION_HEADER: placeHeaders.optional().register(facts, {
    defaultText: 'none; required by QUOTE_PARTITION=header',
    meaning:
      "Headers in which a trusted proxy names the client's place, such as cf-ipcountry, or several joined into one " +
      'place: cloudfront-viewer-country,cloudfront-viewer-country-region. A region needs a country beside it, in a ' +
      'header whose name ends in country, country-code or country-name. If one of them is absent, repeated, a ' +
      'placeholder (such as XX, T1, EU, - or unknown) or sent by an untrusted peer, the request is partitioned by ip. They ' +
      'are never sent to the provider.',
  }),
  QUOTE_KEY_HEADERS: quoteKeyHeaders
    .prefault('app-name,app-version,user-agent,authorization')
    .register(facts, {
      meaning:
        'Request headers that the provider sees on a quote. Each is part of the cache key; no other header of ' +
        'the client is forwarded, except the trace context. Must include app-name.',
    }),
  QUOTE_CACHE_ENTRIES: wholeNumber(1, 10_000_000).prefault('100000').register(facts, {
    defaultText: '100000, fewer under a small heap limit',
    meaning:
      'Max quotes kept in memory, which take at most 64 MiB; the least recently used are dropped first.',
  }),
  QUOTE_MIN_VALIDITY_MS: milliseconds(0).prefault('0').register(facts, {
    meaning: 'A cached quote with less time left than this is fetched again.',
  }),
  QUOTE_REFRESH_AHEAD_MS: milliseconds(0)
    .prefault('0')
    .register(facts, {
      meaning:
        'A cached quote that is requested this close to its expiry is fetched again in the background, so that ' +
        'clients of a busy pair see no miss. Off at 0, and at no more than QUOTE_MIN_VALIDITY_MS.',
    }),
  METRICS_PAIRS: metricsPairs.optional().register(facts, {
    meaning:
      'Pairs that get their own label in the metrics, at most 20, separated by commas; all other pairs ' +
      'count as other.',
  }),
}
