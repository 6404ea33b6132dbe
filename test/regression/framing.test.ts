import { describe, expect, it } from 'vitest'
import {
  attack,
  attackedGateway,
  expectRefusal,
  smuggled,
} from '../support/clients/attack.ts'

const gateway = attackedGateway({}, { atOnce: true })

let count = 0

/** A POST of its own target with a smuggled request behind it, and what the upstream saw of both. */
async function post(framing: string, body: string, version = '1.1') {
  count += 1
  const target = `/checkouts/framing-${count}`
  const outcome = await attack(
    gateway.url,
    `POST ${target} HTTP/${version}\r\nHost: gateway\r\n${framing}\r\n${body}${smuggled}`,
  )
  const seen = gateway.received.filter((request) => request.target === target)
  return { outcome, seen }
}

async function expectRefusedUnseen(framing: string, body: string, version = '1.1') {
  const { outcome, seen } = await post(framing, body, version)
  expectRefusal(outcome, 400, 'malformed-request')
  expect(seen).toEqual([])
  expect(
    gateway.received.filter((request) => request.target.includes('smuggled')),
  ).toEqual([])
}

// Two servers in a row that differ about where a body ends read different requests from the same bytes: the
// one behind takes a part of the body for a request that the one in front has never judged.
describe('refuses what leaves two opinions about the end of a body', () => {
  it.concurrent.each([
    'Content-Length: 5\r\nTransfer-Encoding: chunked',
    'Transfer-Encoding: chunked\r\nContent-Length: 5',
    'Content-Length: 5\r\nContent-Length: 5',
    'Content-Length: 5, 5',
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked',
    // strtol, parseInt and a strict reader make different numbers of these; past 2^53 a double does.
    ...['+5', '0x5', '5 5', '', '\x0b5', '9007199254740993'].map(
      (length) => `Content-Length: ${length}`,
    ),
    // The server behind may know a coding that this one does not, or not know that it does not.
    ...['gzip', 'gzip, chunked', 'chunked, gzip', 'chunked, chunked'].map(
      (coding) => `Transfer-Encoding: ${coding}`,
    ),
    ...['xchunked', '"chunked"', 'chunked;q=1', '\x0bchunked', ''].map(
      (coding) => `Transfer-Encoding: ${coding}`,
    ),
  ])('%j', (framing) => expectRefusedUnseen(`${framing}\r\n`, '0\r\n\r\n'))

  // RFC 9112 6.1: an HTTP/1.0 client cannot know the coding, so a proxy in between forwarded it blindly.
  it.concurrent('chunked over HTTP/1.0', async () => {
    const framing = 'Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n'
    await expectRefusedUnseen(framing, '5\r\nhello\r\n0\r\n\r\n', '1.0')
  })

  // A tab behind a value is not part of it (RFC 9110 5.5). Older parsers refuse it, newer ones read a 5; what they
  // must not do is pass the tab on to a server that reads something else.
  it.concurrent('but relays a length that a tab follows, without the tab', async () => {
    const { outcome, seen } = await post(
      'Connection: close\r\nContent-Length: 5\t\r\n',
      'hello',
    )
    if (seen.length === 0) expectRefusal(outcome, 400, 'malformed-request')
    for (const { headers, body } of seen)
      expect([headers['content-length'], body.toString()]).toEqual(['5', 'hello'])
    expect(outcome.answers).toHaveLength(1)
    expect(
      gateway.received.filter((request) => request.target.includes('smuggled')),
    ).toEqual([])
  })
})

// The head was good and may have gone to the upstream already; the body must never look whole there.
describe('answers a broken chunked body with 400 and never ends it upstream', () => {
  it.concurrent.each([
    ['a hexadecimal prefix', '0x5\r\nhello\r\n0\r\n\r\n'],
    ['a size with a plus', '+5\r\nhello\r\n0\r\n\r\n'],
    ['a space after the size', '5 \r\nhello\r\n0\r\n\r\n'],
    ['no size', '\r\nhello\r\n0\r\n\r\n'],
    ['a size that is 5 modulo 2^64', '10000000000000005\r\nhello\r\n0\r\n\r\n'],
    ['no line end behind the data', '5\r\nhello0\r\n\r\n'],
    ['bare LF line ends', '5\nhello\n0\n\n'],
    ['a bare LF in a chunk extension', '5;a\nhello\r\n0\r\n\r\n'],
    ['a length among the trailers', '5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n'],
    ['a trailer that is not a header', '5\r\nhello\r\n0\r\nX T: u\r\n\r\n'],
    ['a chunk extension of 20 KiB', `5;${'a'.repeat(20_480)}\r\nhello\r\n0\r\n\r\n`],
    ['trailers of 80 KiB', `5\r\nhello\r\n0\r\n${'X-T: '.padEnd(81_920, 'u')}\r\n\r\n`],
  ])('%s', async (_name, body) => {
    const { outcome, seen } = await post('Transfer-Encoding: chunked\r\n', body)
    expect(outcome.answers.map((answer) => answer.status)).toEqual([
      expect.toBeOneOf([400, 431]),
    ])
    expect(outcome.rest).toBe('')
    expect(seen.filter((request) => request.complete)).toEqual([])
  })
})

// Legal, and nothing of it may reach an upstream that would read it differently.
describe('relays a chunked body without its odd parts', () => {
  it.concurrent.each([
    ['chunk extensions', '5;a=b\r\nhello\r\n0;c\r\n\r\n'],
    ['leading zeros', '0005\r\nhello\r\n000\r\n\r\n'],
    ['trailers', '5\r\nhello\r\n0\r\nX-T: u\r\n\r\n'],
    ['capitals', '5\r\nhello\r\n0\r\n\r\n', 'CHUNKED'],
  ])('%s', async (_name, body, coding = 'chunked') => {
    count += 1
    const target = `/checkouts/framing-${count}`
    const outcome = await attack(
      gateway.url,
      `POST ${target} HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: ${coding}\r\n\r\n${body}` +
        `GET ${target}/behind HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n`,
    )
    expect(outcome.answers.map((answer) => answer.body)).toEqual([
      target,
      `${target}/behind`,
    ])
    const seen = gateway.received.filter((request) => request.target.startsWith(target))
    expect(seen.map((request) => [request.method, request.body.toString()])).toEqual([
      ['POST', 'hello'],
      ['GET', ''],
    ])
    expect(seen[0]?.headers).toMatchObject({ 'transfer-encoding': 'chunked' })
    expect(seen[0]?.headers).not.toHaveProperty('x-t')
  })
})
