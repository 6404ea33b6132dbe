import { facts } from '../setting-facts.ts'
import { milliseconds, oneOf, wholeNumber } from '../value-schemas.ts'

export const limitSettings = {
  UPSTREAM_TOTAL_TIMEOUT_MS: milliseconds()
    .prefault('15000')
    .register(facts, {
      meaning:
        'Quotes and float orders: time from the last byte of the request to the last byte of the answer. All ' +
        'requests to the swap API wait for a free connection for at most half of it, and then get 503 unsent.',
    }),
  UPSTREAM_HEADERS_TIMEOUT_MS: milliseconds()
    .prefault('10000')
    .register(facts, {
      meaning:
        "Time from the end of the request's body to the head of the upstream's answer. It may take up to one " +
        'second longer. Connecting may take 3 s, and a pause within the answer 30 s. Requests other than quotes and float orders also wait at most this long for a free ' +
        'connection, and then get 503 unsent.',
    }),
  UPSTREAM_CONNECTIONS: wholeNumber(1, 65_535)
    .prefault('128')
    .register(facts, {
      meaning:
        'Max connections per upstream. An eighth of those to the swap API (at least one, if there are several) is ' +
        'reserved for float orders. Requests with a streamed body use at most a quarter, and at least one. Eight times as many ' +
        'requests may wait; a further one gets 503 with Retry-After at once.',
    }),
  CLIENT_CONNECTIONS: wholeNumber(1, 1_000_000)
    .prefault('10000')
    .register(facts, {
      meaning:
        'Max client connections; a further one is answered with 503 and Retry-After and closed. The listen backlog is ' +
        'as long, at least 511; Linux cuts it to net.core.somaxconn.',
    }),
  RATE_LIMIT_PER_MINUTE: wholeNumber(0, 10_000_000)
    .prefault('0')
    .register(facts, {
      meaning:
        'Requests a minute that one client may send to the swap upstream; past it: 429 with Retry-After. The ' +
        'limit protects the upstream, so these do not count: quotes from the cache or from a call in flight, ' +
        'and refused orders. What was to be sent counts, also where it could not be. Payments and webhooks do ' +
        'not count. 0: no limit.',
    }),
  RATE_LIMIT_BY: oneOf(['app-name', 'client-ip', 'both'])
    .prefault('app-name')
    .register(facts, {
      meaning:
        'What counts as one client: an App-Name (SWAP_APP_NAME for requests without one), a client address ' +
        '(see TRUST_PROXY; requests of unknown address share one limit), or an App-Name at an address.',
    }),
  DRAIN_DELAY_MS: milliseconds(0)
    .optional()
    .register(facts, {
      defaultText: '5000 in production, else 0',
      meaning:
        'After SIGTERM: how long new connections are still served while /readyz already answers 503, so that a ' +
        'load balancer notices before any connection is refused.',
    }),
  DRAIN_TIMEOUT_MS: milliseconds(0).prefault('25000').register(facts, {
    meaning: 'After DRAIN_DELAY_MS: how long requests in flight may still take before they are cut.',
  }),
}
