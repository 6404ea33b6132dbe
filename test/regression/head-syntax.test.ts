import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type AttackedGateway,
  attack,
  expectRefusal,
  smuggled,
  startAttackedGateway,
} from '../support/clients/attack.ts'

let gateway: AttackedGateway
beforeAll(async () => {
  gateway = await startAttackedGateway()
})
afterAll(() => gateway.close())

async function expectRefusedUnseen(bytes: string) {
  const seenBefore = gateway.received.length
  expectRefusal(await attack(gateway.url, bytes + smuggled), 400, 'malformed-request')
  expect(gateway.received.length).toBe(seenBefore)
}

// Each of these ends a line for one server and not for the next, or hides a header from one of them.
describe('refuses heads that could be read in two ways', () => {
  it.each([
    ['a folded header', 'X-A: b\r\n c\r\n'],
    ['a folded first header', ' Host: other\r\nX-A: b\r\n'],
    ['a bare CR in a value', 'X-A: b\rc\r\n'],
    ['a bare CR in a name', 'X\rA: b\r\n'],
    ['a bare LF behind a header', 'X-A: b\nX-B: c\r\n'],
    ['a NUL in a value', 'X-A: b\0c\r\n'],
    ['a NUL in a name', 'X\0A: b\r\n'],
    ['a control character in a value', 'X-A: \x01\r\n'],
    ['a DEL in a value', 'X-A: b\x7fc\r\n'],
    ['a space in a name', 'X A: b\r\n'],
    ['a space before the colon', 'X-A : b\r\n'],
    ['a bracket in a name', 'X(A): b\r\n'],
    ['a name of no length', ': b\r\n'],
    ['a line without a colon', 'nonsense\r\n'],
    ['a non-ASCII name', 'X-\xe9: b\r\n'],
  ])('%s', async (_name, lines) => {
    await expectRefusedUnseen(`GET /checkouts/syntax HTTP/1.1\r\n${lines}Host: gateway\r\n\r\n`)
  })

  it.each([
    ['bare LF everywhere', 'GET /checkouts/syntax HTTP/1.1\nHost: gateway\n\n'],
    ['a bare LF behind the request line', 'GET /checkouts/syntax HTTP/1.1\nHost: gateway\r\n\r\n'],
    ['a bare LF at the end of the head', 'GET /checkouts/syntax HTTP/1.1\r\nHost: gateway\r\n\n'],
    ['bare CR everywhere', 'GET /checkouts/syntax HTTP/1.1\rHost: gateway\r\r'],
    ['tabs in the request line', 'GET\t/checkouts/syntax\tHTTP/1.1\r\nHost: gateway\r\n\r\n'],
    ['a space at the end of the request line', 'GET /checkouts/syntax HTTP/1.1 \r\nHost: gateway\r\n\r\n'],
    ['a space before the method', ' GET /checkouts/syntax HTTP/1.1\r\nHost: gateway\r\n\r\n'],
    ['a method in small letters', 'get /checkouts/syntax HTTP/1.1\r\nHost: gateway\r\n\r\n'],
    ['an unknown method', 'FOO /checkouts/syntax HTTP/1.1\r\nHost: gateway\r\n\r\n'],
    ['a TLS hello', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ])('%s', async (_name, bytes) => {
    await expectRefusedUnseen(bytes)
  })
})

// A line without a version is a whole HTTP/0.9 request to Node; what follows would be the next one.
describe('speaks HTTP/1.0 and HTTP/1.1 only', () => {
  it.each([
    ['HTTP/0.9', 'GET /checkouts/version\r\n\r\n'],
    ['HTTP/0.9 with a bare LF', 'GET /checkouts/version\n\n'],
    ['HTTP/0.9 with headers', 'GET /checkouts/version\r\nHost: gateway\r\n\r\n'],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['HTTP/1.2', 'GET /checkouts/version HTTP/1.2\r\nHost: gateway\r\n\r\n'],
    ['HTTP/2.0', 'GET /checkouts/version HTTP/2.0\r\nHost: gateway\r\n\r\n'],
    ['HTTP/1.10', 'GET /checkouts/version HTTP/1.10\r\nHost: gateway\r\n\r\n'],
    ['HTTP/01.1', 'GET /checkouts/version HTTP/01.1\r\nHost: gateway\r\n\r\n'],
    ['small letters', 'GET /checkouts/version http/1.1\r\nHost: gateway\r\n\r\n'],
    // Node reads these two protocols as well, and keeps to itself which one it was.
    ['Icecast', 'SOURCE /checkouts/version ICE/1.0\r\nHost: gateway\r\n\r\n'],
    ['RTSP', 'DESCRIBE /checkouts/version RTSP/1.0\r\nHost: gateway\r\n\r\n'],
  ])('refuses %s', async (_name, bytes) => {
    await expectRefusedUnseen(bytes)
  })

  // Node hides the protocol's name, so a GET of RTSP cannot be distinguished from one of HTTP. It does no harm: it is
  // framed the same, and goes on as HTTP/1.1.
  it('relays a GET that came as RTSP as a clean HTTP GET', async () => {
    const seenBefore = gateway.received.length
    const { answers } = await attack(
      gateway.url,
      'GET /checkouts/rtsp RTSP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n',
    )
    expect(answers.map((answer) => answer.status)).toEqual([200])
    expect(gateway.received.slice(seenBefore).map(({ method, target }) => [method, target])).toEqual([
      ['GET', '/checkouts/rtsp'],
    ])
  })
})

// Behind the gateway, Host chooses the customer; two of them choose two.
describe('refuses a request that is not clear about its host', () => {
  it.each([
    ['two hosts', 'Host: a\r\nHost: b\r\n'],
    ['the same host twice', 'Host: a\r\nhost: a\r\n'],
    ['no host', ''],
    ['a list', 'Host: a, b\r\n'],
    ['a path', 'Host: a/b\r\n'],
    ['a user', 'Host: user@a\r\n'],
    ['a broken escape', 'Host: %zz\r\n'],
    ['half an IPv6 address', 'Host: [::1\r\n'],
    ['a port that is not a number', 'Host: a:80a\r\n'],
    ['a non-ASCII name', 'Host: \xe9\r\n'],
  ])('%s', async (_name, hosts) => {
    await expectRefusedUnseen(`GET /checkouts/host HTTP/1.1\r\n${hosts}\r\n`)
  })

  it('two hosts over HTTP/1.0', async () => {
    await expectRefusedUnseen('GET /checkouts/host HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n')
  })

  it.each(['a', 'a:8080', '[::1]:8080', '127.0.0.1', 'a%20b', ''])('but takes "%s"', async (host) => {
    const { answers } = await attack(
      gateway.url,
      `GET /checkouts/host HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
    )
    expect(answers.map((answer) => answer.status)).toEqual([200])
  })

  it('but accepts a request without Host over HTTP/1.0', async () => {
    const { answers } = await attack(gateway.url, 'GET /checkouts/host HTTP/1.0\r\n\r\n')
    expect(answers.map((answer) => answer.status)).toEqual([200])
  })
})

// Where Node is more patient than the grammar, what goes on must be as clean as if the client had been.
describe('normalizes what Node tolerates', () => {
  it.each([
    ['empty lines in front', '\r\n\r\nGET /checkouts/forgiven HTTP/1.1\r\nHost: a\r\n'],
    ['bare line feeds in front', '\n\nGET /checkouts/forgiven HTTP/1.1\r\nHost: a\r\n'],
    ['two spaces in the request line', 'GET  /checkouts/forgiven HTTP/1.1\r\nHost: a\r\n'],
  ])('%s', async (_name, head) => {
    const seenBefore = gateway.received.length
    const { answers } = await attack(gateway.url, `${head}Connection: close\r\nX_Odd: \t  v \t\r\n\r\n`)
    expect(answers.map((answer) => answer.status)).toEqual([200])
    const seen = gateway.received.slice(seenBefore)
    expect(seen.map(({ method, target }) => [method, target])).toEqual([['GET', '/checkouts/forgiven']])
    expect(seen[0]?.rawHeaders.join('|')).toContain('X_Odd|v')
  })
})

// A key in a header with an underscore that vanishes on the way looks like a wrong key.
it('passes headers with underscores and with latin1 bytes as they came', async () => {
  const seenBefore = gateway.received.length
  await attack(
    gateway.url,
    'GET /checkouts/names HTTP/1.1\r\nHost: a\r\nApi_Key: secret\r\nX-Name: J\xe9r\xf4me\r\nConnection: close\r\n\r\n',
  )
  const [seen] = gateway.received.slice(seenBefore)
  expect(seen?.rawHeaders).toEqual(expect.arrayContaining(['Api_Key', 'secret', 'X-Name', 'J\xe9r\xf4me']))
})
