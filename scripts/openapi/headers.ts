/** Headers that the gateway sets, by name; a request has those that say something of it. */
const headers: Record<string, { description: string; pattern: string; example: string }> =
  {
    'X-Request-Id': {
      description:
        'The caller’s own, if it was fit to be logged, else a new one. The log of the gateway has it. An answer of the ' +
        'provider to a quote or an order keeps that of the provider, if it has one.',
      pattern: '^[A-Za-z0-9._~:/+=@-]{1,128}$',
      example: '3fe1f811-fd04-4461-87c2-0b24b0c8a37b',
    },
    'Cache-Control': {
      description:
        'On a quote: the whole seconds that it has left, rounded down, and no `Age` beside it, whatever the provider ' +
        'says. On a problem: `no-store`.',
      pattern: '^(private, max-age=[0-9]+|no-store)$',
      example: 'private, max-age=29',
    },
    'Cache-Status': {
      description:
        'Where the answer is from (RFC 9211): `hit` from the cache; `fwd=uri-miss; stored` from the provider; ' +
        '`fwd=uri-miss; collapsed` from a call that was under way; `fwd=stale` from the cache, because the call for a ' +
        'younger quote was answered with `fwd-status` or failed; `fwd=bypass; detail=…` from the provider and not kept, ' +
        'with the reason. `ttl` is in seconds.',
      pattern:
        '^quotegate; (hit; ttl=[0-9]+|fwd=uri-miss; (stored; ttl=[0-9]+|collapsed)' +
        '|fwd=stale; (fwd-status=[0-9]{3}|detail=failed)(; collapsed)?; ttl=[0-9]+|fwd=bypass; detail=[a-z-]+)$',
      example: 'quotegate; hit; ttl=29',
    },
    Vary: {
      description:
        'On a quote: the request headers that chose it (QUOTE_KEY_HEADERS, CLIENT_IP_HEADER, QUOTE_PARTITION_HEADER), and ' +
        'those that the provider names. `*` of the provider stays as it is.',
      pattern: '^[^, ]+(, [^, ]+)*$',
      example: 'App-Name, App-Version, User-Agent, Authorization, Forwarded',
    },
    'Idempotent-Replayed': {
      description:
        '`true`: the order with this Idempotency-Key was answered before, and this is that answer.',
      pattern: '^true$',
      example: 'true',
    },
    'Proxy-Status': {
      description: 'What went wrong with the upstream (RFC 9209).',
      pattern: '^quotegate; error=[a-z_]+$',
      example: 'quotegate; error=connection_refused',
    },
    RateLimit: {
      description:
        'With RATE_LIMIT_PER_MINUTE, on what was counted: requests left, and seconds until there are more.',
      pattern: '^"default";r=[0-9]+;t=[0-9]+$',
      example: '"default";r=42;t=17',
    },
    'RateLimit-Policy': {
      description:
        'With RATE_LIMIT_PER_MINUTE, on what was counted: requests in a window of so many seconds.',
      pattern: '^"default";q=[0-9]+;w=[0-9]+$',
      example: '"default";q=100;w=60',
    },
    'Retry-After': {
      description: 'After how many seconds to ask again.',
      pattern: '^[1-9][0-9]*$',
      example: '1',
    },
    Allow: {
      description: 'The methods that are allowed.',
      pattern: '^[A-Z]+(, [A-Z]+)*$',
      example: 'GET, HEAD, OPTIONS',
    },
    'Accept-Encoding': {
      description: 'The content codings that an order may have: none.',
      pattern: '^identity$',
      example: 'identity',
    },
  }

export function headerRefs(names: readonly string[]): Record<string, object> {
  return Object.fromEntries(
    names.map((name) => [name, { $ref: `#/components/headers/${name}` }]),
  )
}

export function headerComponents(): Record<string, object> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, { description, pattern, example }]) => [
      name,
      { description, schema: { type: 'string', pattern }, example },
    ]),
  )
}
