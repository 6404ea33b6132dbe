import { facts } from '../setting-facts.ts'
import { milliseconds, oneOf, onOrOff, wholeNumber } from '../value-schemas.ts'

export const limitSettings = {
  UPSTREAM_TOTAL_TIMEOUT_MS: milliseconds()
    .prefault('15000')
    .register(facts, {
      meaning:
        'Quotes and float orders: time from the last byte of the request to the last byte of the answer. All ' +
        'requests to the swap API wait for a free connection for at most half of it, and then get 503 unsent.',
    }),
  UPSTREAM_CONNECT_TIMEOUT_MS: milliseconds().prefault('3000').register(facts, {
    meaning: 'Time to connect to an upstream, TLS included.',
  }),
  UPSTREAM_HEADERS_TIMEOUT_MS: milliseconds()
    .prefault('10000')
    .register(facts, {
      meaning:
        "Time from the end of the request's body to the head of the upstream's answer. It may take up to one " +
        'second longer. Requests other than quotes and float orders also wait at most this long for a free ' +
        'connection, and then get 503 unsent.',
    }),
  UPSTREAM_BODY_TIMEOUT_MS: milliseconds()
    .prefault('30000')
    .register(facts, {
      meaning:
        "Longest pause between two chunks of an upstream's answer, and longest time for which a client may stop " +
        'reading it. It may take up to one second longer.',
    }),
  UPSTREAM_CONNECTIONS: wholeNumber(1, 65_535)
    .prefault('128')
    .register(facts, {
      meaning:
        'Max connections per upstream. An eighth of those to the swap API (at least one, if there are several) is ' +
        'reserved for float orders. Requests with a streamed body use at most a quarter, and at least one.',
    }),
  UPSTREAM_QUEUE: wholeNumber(0, 1_000_000)
    .prefault('1024')
    .register(facts, {
      meaning:
        'Max requests per upstream that wait for a connection; a further one gets 503 with Retry-After at once. Float ' +
        'orders go first, and have places of their own. Requests with a streamed body fill at most a quarter.',
    }),
  UPSTREAM_RETRIES: wholeNumber(0, 1)
    .prefault('1')
    .register(facts, {
      meaning:
        'Retries for requests that cannot have reached the upstream, and for a GET or HEAD whose connection died ' +
        'before any answer. Never after a timeout. 0: none.',
    }),
  BREAKER_FAILURES: wholeNumber(1, 1_000_000)
    .prefault('5')
    .register(facts, {
      meaning:
        'Failures in a row, the first at least one second before the last (2.5 while slower requests wait for their ' +
        'answer), after which requests are not sent for BREAKER_OPEN_MS. Failed connections stop all requests to that ' +
        'upstream. Resets, timeouts, 502, 503 and 504 of the swap API stop their own kind: orders, quotes of one ' +
        'pair, or the rest.',
    }),
  BREAKER_OPEN_MS: milliseconds().prefault('5000').register(facts, {
    meaning: 'How long an open breaker stops requests (503 with Retry-After) before one request may try.',
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
  RATE_LIMIT_HITS: onOrOff.prefault('false').register(facts, {
    meaning: 'true: every quote counts, also one from the cache or from a call in flight.',
  }),
  REQUEST_HEAD_TIMEOUT_MS: milliseconds().prefault('10000').register(facts, {
    meaning: "Deadline for a client's request head.",
  }),
  REQUEST_BODY_IDLE_TIMEOUT_MS: milliseconds().prefault('30000').register(facts, {
    meaning: "Longest pause in a client's request body; past it: 408.",
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
