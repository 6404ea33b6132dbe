import fc from 'fast-check'

export interface HostileStream {
  /** What the client writes, in the pieces in which it writes it. */
  pieces: Buffer[]
  /** Whether a good request goes first, in the same piece as what follows it. */
  led: boolean
  /** How many requests it was made of before it was spoilt. */
  requests: number
  /** What the client does when nothing more comes. */
  ending: 'wait' | 'end' | 'reset'
}

const mostly = <Value>(usual: Value, ...odd: Value[]) =>
  fc.oneof(
    { weight: 30, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...odd) },
  )

const method = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.constantFrom('GET', 'POST', 'POST', 'HEAD', 'PUT', 'DELETE', 'OPTIONS'),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      'TRACE',
      'CONNECT',
      'PRI',
      'SOURCE',
      'DESCRIBE',
      'get',
      'QUERY',
    ),
  },
)

const prefix = fc.constantFrom(
  '/checkouts/',
  '/refunds/',
  '/v3/assets/',
  '/v3/pairs/a/quotes?amount=1&x=',
  '/v3/',
)
const segment = fc.constantFrom(
  '..',
  '.',
  '%2e%2e',
  '%2f',
  '\\',
  '%zz',
  '//',
  '#',
  '?',
  '*',
  '\0',
  '\xe9',
  ' ',
  '%00',
)
const target = fc.oneof(
  { weight: 40, arbitrary: prefix },
  {
    weight: 2,
    arbitrary: fc
      .tuple(prefix, fc.array(segment, { maxLength: 3 }))
      .map(([a, b]) => a + b.join('')),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '*',
      '',
      'a:443',
      '/nope',
      '//evil.example/v3',
      'http://evil.example/checkouts/',
      'http://evil.example',
      '/V3/x',
      '/checkoutsx',
      `/v3/${'a'.repeat(9_000)}`,
    ),
  },
)

const version = mostly(
  'HTTP/1.1',
  'HTTP/1.0',
  'HTTP/1.2',
  'HTTP/2.0',
  'HTTP/0.9',
  'RTSP/1.0',
  'ICE/1.0',
  '',
)
const lineEnd = fc.oneof(
  { weight: 60, arbitrary: fc.constant('\r\n') },
  { weight: 1, arbitrary: fc.constantFrom('\n', '\r', '\r\r\n', '\0\r\n') },
)

const header = fc.constantFrom(
  'X-A: b',
  'App-Name: fuzz',
  'Connection: close',
  'Connection: keep-alive',
  'Connection: host, content-length, x-a',
  'Connection: Upgrade',
  'Upgrade: h2c',
  'Expect: 100-continue',
  'Expect: more',
  'Max-Forwards: 0',
  'Host: other',
  'Host: a/b',
  'Host : a',
  'Content-Length: 3',
  'Content-Length: +3',
  'Content-Length : 3',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding : chunked',
  'Transfer-Encoding: identity',
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding:\x0bchunked',
  ' folded',
  'no colon',
  'X-B: \x01',
  'X-C: \xe9\xff',
  'Via: 1.1 quotegate',
  'Forwarded: for="',
  'X-Request-Id: a\tb',
  `X-D: ${'d'.repeat(17_000)}`,
  Array.from({ length: 201 }, () => 'X-E: e').join('\r\n'),
)

const goodFraming = fc.constantFrom(
  { headers: [], body: '' },
  { headers: ['Content-Length: 5'], body: 'hello' },
  { headers: ['Transfer-Encoding: chunked'], body: '5\r\nhello\r\n0\r\n\r\n' },
)
const badFraming = fc.constantFrom(
  { headers: ['Content-Length: 3'], body: 'hello' },
  { headers: ['Content-Length: 9'], body: 'hello' },
  {
    headers: ['Transfer-Encoding: chunked'],
    body: '5;a="b"\r\nhello\r\n0\r\nX-T: u\r\n\r\n',
  },
  { headers: ['Transfer-Encoding: chunked'], body: '0x5\r\nhello\r\n0\r\n\r\n' },
  { headers: ['Transfer-Encoding: chunked'], body: '5\r\nhelloGET /' },
  { headers: ['Transfer-Encoding: chunked', 'Content-Length: 5'], body: '0\r\n\r\n' },
  { headers: ['Content-Length: 5', 'Content-Length: 5'], body: 'hello' },
)

const framing = fc.oneof(
  { weight: 10, arbitrary: goodFraming },
  { weight: 1, arbitrary: badFraming },
)
const headers = fc.oneof(
  { weight: 3, arbitrary: fc.constant([]) },
  { weight: 1, arbitrary: fc.array(header, { minLength: 1, maxLength: 2 }) },
)

const request = fc
  .record({ method, target, version, framing, headers, lineEnd })
  .map((parts) => (index: number) => {
    const lines = [
      `${parts.method} ${parts.target}${parts.target.endsWith('/') ? `n${index}` : ''} ${parts.version}`.trimEnd(),
      'Host: gateway',
      ...parts.headers,
      ...parts.framing.headers,
    ]
    return `${lines.join('\r\n')}${parts.lineEnd}\r\n${parts.framing.body}`
  })

/** The good request that leads some of the streams. */
export const leader = 'GET /checkouts/leader HTTP/1.1\r\nHost: gateway\r\n\r\n'

const fraction = fc.double({ min: 0, max: 1, noNaN: true })
const spoiling = fc.record({
  kind: fc.constantFrom('insert', 'remove', 'replace', 'repeat', 'cut'),
  at: fraction,
  length: fc.nat({ max: 40 }),
  bytes: fc.oneof(
    fc.constantFrom(
      '\r\n',
      '\n',
      '\r',
      '\0',
      ' ',
      '\t',
      ':',
      '\r\n\r\n',
      '\x7f',
      '\xff',
      '/',
      '%',
      ',',
    ),
    fc
      .uint8Array({ minLength: 1, maxLength: 6 })
      .map((bytes) => Buffer.from(bytes).toString('latin1')),
  ),
})

function spoil(
  text: string,
  {
    kind,
    at,
    length,
    bytes,
  }: { kind: string; at: number; length: number; bytes: string },
) {
  const from = Math.floor(at * text.length)
  const [before, behind] = [text.slice(0, from), text.slice(from)]
  if (kind === 'insert') return before + bytes + behind
  if (kind === 'remove') return before + behind.slice(length)
  if (kind === 'replace') return before + bytes + behind.slice(bytes.length)
  if (kind === 'repeat') return before + behind.slice(0, length) + behind
  return before
}

/** Requests as an attacker sends them: nearly right, several at once, cut anywhere. */
export const hostileStream: fc.Arbitrary<HostileStream> = fc
  .record({
    requests: fc.array(request, { minLength: 1, maxLength: 5 }),
    spoilings: fc.array(spoiling, { maxLength: 2 }),
    led: fc.boolean(),
    cuts: fc.array(fraction, { maxLength: 3 }),
    ending: fc.constantFrom('wait', 'end', 'end', 'end', 'end', 'reset') as fc.Arbitrary<
      HostileStream['ending']
    >,
  })
  .map(({ requests, spoilings, led, cuts, ending }) => {
    const valid = requests.map((make, index) => make(index)).join('')
    const text = (led ? leader : '') + spoilings.reduce(spoil, valid)
    const positions = cuts
      .map((cut) => Math.floor(cut * text.length))
      .sort((a, b) => a - b)
    const pieces = [0, ...positions].map((from, index) =>
      Buffer.from(text.slice(from, positions[index] ?? text.length), 'latin1'),
    )
    return {
      pieces: pieces.filter((piece) => piece.length > 0),
      led,
      requests: requests.length + (led ? 1 : 0),
      ending,
    }
  })
