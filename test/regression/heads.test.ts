import { describe, expect, it } from 'vitest'
import {
  attack,
  attackedGateway,
  expectRefusal,
  smuggled,
} from '../support/clients/attack.ts'
import { counted } from '../support/clients/quotes.ts'
import { gatewayTo } from '../support/gateways/between.ts'

const gateway = attackedGateway()

async function expectRefusedUnseen(bytes: string, slug = 'malformed-request') {
  expectRefusal(await attack(gateway.url, bytes + smuggled), 400, slug)
  expect(gateway.received).toEqual([])
}

// Each of these ends a line for one server and not for the next, or hides a header from one of them.
describe('refuses heads that could be read in two ways', () => {
  it.each([
    ['a folded header', 'X-A: b\r\n c\r\n'],
    ['a bare CR in a value', 'X-A: b\rc\r\n'],
    ['a NUL in a value', 'X-A: b\0c\r\n'],
    ['a DEL in a value', 'X-A: b\x7fc\r\n'],
    // A coding to one server, and a header of another name or a part of a value to the next.
    ['a space before the colon', 'Transfer-Encoding : chunked\r\n'],
    ['a coding behind a bare CR', 'X-A: b\rTransfer-Encoding: chunked\r\n'],
    ['a line without a colon', 'nonsense\r\n'],
    ['a non-ASCII name', 'X-\xe9: b\r\n'],
  ])('%s', (_name, lines) =>
    expectRefusedUnseen(
      `GET /checkouts/syntax HTTP/1.1\r\n${lines}Host: gateway\r\n\r\n`,
    ),
  )

  it.each([
    ['bare LF everywhere', 'GET /checkouts/syntax HTTP/1.1\nHost: gateway\n\n'],
    [
      'a bare LF at the end of the head',
      'GET /checkouts/syntax HTTP/1.1\r\nHost: gateway\r\n\n',
    ],
    [
      'tabs in the request line',
      'GET\t/checkouts/syntax\tHTTP/1.1\r\nHost: gateway\r\n\r\n',
    ],
    [
      'a space at the end of the request line',
      'GET /checkouts/syntax HTTP/1.1 \r\nHost: gateway\r\n\r\n',
    ],
    [
      'a space before the method',
      ' GET /checkouts/syntax HTTP/1.1\r\nHost: gateway\r\n\r\n',
    ],
    ['an unknown method', 'FOO /checkouts/syntax HTTP/1.1\r\nHost: gateway\r\n\r\n'],
    ['a TLS hello', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ])('%s', (_name, bytes) => expectRefusedUnseen(bytes))
})

// A line without a version is a whole HTTP/0.9 request to Node; what follows would be the next one.
describe('speaks HTTP/1.0 and HTTP/1.1 only', () => {
  it.each([
    ['HTTP/0.9', 'GET /checkouts/version\r\n\r\n'],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['HTTP/1.2', 'GET /checkouts/version HTTP/1.2\r\nHost: gateway\r\n\r\n'],
    // Node reads these two protocols as well, and keeps to itself which one it was.
    ['Icecast', 'SOURCE /checkouts/version ICE/1.0\r\nHost: gateway\r\n\r\n'],
    ['RTSP', 'DESCRIBE /checkouts/version RTSP/1.0\r\nHost: gateway\r\n\r\n'],
  ])('refuses %s', (_name, bytes) => expectRefusedUnseen(bytes))
})

// Behind the gateway, Host chooses the customer; two of them choose two.
describe('refuses a request that is not clear about its host', () => {
  it.each([
    ['two hosts', 'Host: a\r\nHost: b\r\n'],
    ['no host', ''],
    ['a path', 'Host: a/b\r\n'],
    ['half an IPv6 address', 'Host: [::1\r\n'],
    ['a port that is not a number', 'Host: a:80a\r\n'],
  ])('%s', (_name, hosts) =>
    expectRefusedUnseen(`GET /checkouts/host HTTP/1.1\r\n${hosts}\r\n`),
  )

  it('but takes a host that is one, an empty one, and none over HTTP/1.0', async () => {
    for (const rest of [
      '1.1\r\nHost: [::1]:8080',
      '1.1\r\nHost: a%20b',
      '1.1\r\nHost:',
      '1.0',
    ]) {
      const bytes = `GET /checkouts/host HTTP/${rest}\r\nConnection: close\r\n\r\n`
      expect(
        (await attack(gateway.url, bytes)).answers.map(({ status }) => status),
      ).toEqual([200])
    }
  })
})

// Where Node is more patient than the grammar, what goes on must be as clean as if the client had been.
describe('normalizes what Node tolerates', () => {
  it.each([
    ['empty lines in front', '\r\n\r\nGET /checkouts/forgiven HTTP/1.1\r\nHost: a\r\n'],
    [
      'two spaces in the request line',
      'GET  /checkouts/forgiven HTTP/1.1\r\nHost: a\r\n',
    ],
  ])('%s', async (_name, head) => {
    const { answers } = await attack(
      gateway.url,
      `${head}Connection: close\r\nX_Odd: \t  v \t\r\n\r\n`,
    )
    expect(answers.map((answer) => answer.status)).toEqual([200])
    const seen = gateway.received
    expect(seen.map(({ method, target }) => [method, target])).toEqual([
      ['GET', '/checkouts/forgiven'],
    ])
    expect(seen[0]?.rawHeaders.join('|')).toContain('X_Odd|v')
  })
})

// Behind a path prefix and a credential that the gateway adds, a dot segment that the upstream resolves is
// the way to its other endpoints; a target that is not a path chooses another host.
describe('refuses targets that another server could read differently', () => {
  // Every target of a kind: test/routes/area.test.ts.
  it.each([
    ['//evil.example/../v3/orders', 'bad-target'],
    ['/checkouts/.%2e', 'bad-target'],
    ['/checkouts/..;/x', 'bad-target'],
    ['/checkouts\\..\\x', 'bad-target'],
    ['/checkouts/%zz', 'bad-target'],
    ['*', 'bad-target'],
    ['http://evil.example/checkouts/../v3', 'bad-target'],
    // Express asks `url.parse`, which throws at these, and then answers with a page of HTML that is not counted.
    ['http://[::1/v3/pairs', 'bad-target'],
    ['checkouts/x', 'malformed-request'],
    ['', 'malformed-request'],
    ['/checkouts/x y', 'malformed-request'],
    ['/checkouts/\0', 'malformed-request'],
    ['/checkouts/\x7f', 'malformed-request'],
    ['/checkouts/\xc3\xa9', 'malformed-request'],
  ])('%j', (target, slug) =>
    expectRefusedUnseen(`GET ${target} HTTP/1.1\r\nHost: gateway\r\n\r\n`, slug),
  )
})

// "//host/path" looks like a URL without a scheme: joined to a base it names another host.
it('never reads the first segment of "//host/checkouts" as a host', async () => {
  const bytes =
    'GET //evil.example/checkouts HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n'
  const { answers } = await attack(gateway.url, bytes)
  expect(answers.map((answer) => answer.status)).toEqual([404])
  expect(gateway.received).toEqual([])
})

it('a bad target is counted once', async () => {
  const counting = await gatewayTo('http://127.0.0.1:9')
  const bytes =
    'POST http://[::1/v3/orders/float HTTP/1.1\r\nHost: gateway\r\nApp-Name: a\r\n\r\n'
  expectRefusal(await attack(counting.url, bytes), 400, 'bad-target')
  const request =
    'quotegate_http_requests_total{route="none",method="POST",status_class="4xx"}'
  expect(await counted(counting, request)).toBe(1)
  expect(await counted(counting, 'quotegate_problems_total{type="bad-target"}')).toBe(1)
})

// RFC 9112 9.3 and 9.6. Node kept these connections open, so a client that waits for their end waited for a minute, and
// what followed the last request was served.
it.each([
  ['a tab behind it', '1.1', 'Connection: close\t\r\n'],
  ['a tab between it and a comma', '1.1', 'Connection: close\t, x-other\r\n'],
  ['a tab before it', '1.1', 'Connection:\tclose\r\n'],
  [
    'capitals, and another option before it',
    '1.1',
    'Connection: keep-alive,\tCLOSE\t\r\n',
  ],
  [
    'a line of its own behind keep-alive',
    '1.1',
    'Connection: keep-alive\r\nConnection: close\t\r\n',
  ],
  ['keep-alive behind it in HTTP/1.0', '1.0', 'Connection: close, keep-alive\r\n'],
  [
    'keep-alive before it in HTTP/1.0',
    '1.0',
    'Connection: keep-alive\r\nConnection: close\r\n',
  ],
])(
  'close with %s closes the connection, and nothing more is served on it',
  async (_what, version, line) => {
    const request = `GET /checkouts/last HTTP/${version}\r\nHost: gateway\r\n${line}\r\n`
    const { answers, rest } = await attack(gateway.url, request + smuggled)
    expect(answers.map(({ headers }) => headers.get('connection'))).toEqual([['close']])
    expect([answers[0]?.body, rest]).toEqual(['/checkouts/last', ''])
    expect(gateway.received.map(({ target }) => target)).toEqual(['/checkouts/last'])
  },
)

it('an option whose name only begins with close keeps the connection', async () => {
  const options =
    'GET /checkouts/first HTTP/1.1\r\nHost: gateway\r\nConnection: closed, x-close\r\n\r\n'
  const last =
    'GET /checkouts/last HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n'
  const { answers } = await attack(gateway.url, options + last)
  expect(answers.map(({ body }) => body)).toEqual(['/checkouts/first', '/checkouts/last'])
})
