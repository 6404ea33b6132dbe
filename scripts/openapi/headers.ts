/** Headers that the gateway sets: the pattern of the value, and what it says. */
const headers: Record<string, readonly [pattern: string, description: string]> = {
  'X-Request-Id': [
    '^[A-Za-z0-9._~:/+=@-]{1,128}$',
    'The caller’s own, if it was fit to be logged, else a new one. The log of the gateway has it. An answer of the ' +
      'provider to a quote or an order keeps that of the provider, if it has one.',
  ],
  'Cache-Control': [
    '^(private, max-age=[0-9]+|no-store)$',
    'On a quote: the whole seconds that it has left, with no `Age`. On a problem: `no-store`.',
  ],
  'Cache-Status': [
    '^quotegate; (hit; ttl=[0-9]+|fwd=uri-miss; (stored; ttl=[0-9]+|collapsed)' +
      '|fwd=stale; (fwd-status=[0-9]{3}|detail=failed)(; collapsed)?; ttl=[0-9]+|fwd=bypass; detail=[a-z-]+)$',
    'Where the answer is from (RFC 9211): `hit` from the cache; `stored` from the provider; `collapsed` from a call ' +
      'that was under way; `stale` from the cache, because the call for a younger quote was answered with ' +
      '`fwd-status` or failed; `bypass` from the provider and not kept, with the reason. `ttl` is in seconds.',
  ],
  Vary: [
    '^[^, ]+(, [^, ]+)*$',
    'The request headers that chose the quote (QUOTE_KEY_HEADERS, CLIENT_IP_HEADER, QUOTE_PARTITION_HEADER), and those ' +
      'that the provider names.',
  ],
  'Idempotent-Replayed': [
    '^true$',
    'The order with this Idempotency-Key was answered before, and this is that answer.',
  ],
  'Proxy-Status': [
    '^quotegate; error=[a-z_]+$',
    'What went wrong with the upstream (RFC 9209).',
  ],
  RateLimit: [
    '^"default";r=[0-9]+;t=[0-9]+$',
    'With RATE_LIMIT_PER_MINUTE, on what was counted: requests left, and seconds until there are more.',
  ],
  'RateLimit-Policy': [
    '^"default";q=[0-9]+;w=[0-9]+$',
    'Likewise: requests in a window of so many seconds.',
  ],
  'Retry-After': ['^[1-9][0-9]*$', 'After how many seconds to ask again.'],
  Allow: ['^[A-Z]+(, [A-Z]+)*$', 'The methods that are allowed.'],
  'Accept-Encoding': ['^identity$', 'The content codings that an order may have: none.'],
}

export const headerComponents = Object.fromEntries(
  Object.entries(headers).map(([name, [pattern, description]]) => [
    name,
    { description, schema: { type: 'string', pattern } },
  ]),
)
