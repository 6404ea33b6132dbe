import { describe, expect, test } from 'vitest'
import {
  attack,
  attackedGateway,
  type Step,
  smuggled,
} from '../support/clients/attack.ts'
import { RawConnection, valuesOf } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, recordingUpstream } from '../support/gateways/between.ts'

const gateway = attackedGateway()

const request = (line: string, headers: string[]) =>
  [`${line} HTTP/1.1`, ...headers, '', ''].join('\r\n')
const settings = 'HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA'

/** What `java.net.http.HttpClient` of JDK 17 sends, recorded. */
const jdk17 = (line: string, length: number, more: string[] = []) =>
  request(line, [
    'Connection: Upgrade, HTTP2-Settings',
    `Content-Length: ${length}`,
    'Host: 127.0.0.1:18411',
    settings,
    'Upgrade: h2c',
    'User-Agent: Java-http-client/17.0.15',
    ...more,
  ])
/** From JDK 19 on a GET has no length. */
const jdk19 = (line: string) =>
  request(line, [
    'Connection: Upgrade, HTTP2-Settings',
    'Host: 127.0.0.1:18411',
    settings,
    'Upgrade: h2c',
    'User-Agent: Java-http-client/19.0.2',
  ])
const apache = [
  'Accept-Encoding: gzip, x-gzip, deflate',
  'Host: 127.0.0.1:18411',
  'User-Agent: Apache-HttpClient/5.4 (Java/21.0.2)',
]
/** Apache HttpClient 5.4 asks for TLS in requests that have no body. */
const apacheGet = (line: string) =>
  request(line, [...apache, 'Upgrade: TLS/1.2', 'Connection: Upgrade'])
const apachePost = (line: string, length: number) =>
  request(line, [
    apache[0] ?? '',
    `Content-Length: ${length}`,
    'Content-Type: application/json; charset=UTF-8',
    ...apache.slice(1),
    'Connection: keep-alive',
  ])

const body = '{"a":1}'
const json = ['Content-Type: application/json']
/** Longer than it takes for two writes to be read as one. */
const apartMs = 30

// java.net.http.HttpClient made 315 connections for 315 requests. Each costs a handshake, and a port for a minute.
describe('a client that asks for an upgrade with each request keeps its connection', () => {
  test.each<[string, readonly (readonly Step[])[]]>([
    ['a GET of JDK 17', [[jdk17('GET /checkouts/1', 0)]]],
    ['a GET of JDK 19', [[jdk19('GET /checkouts/1')]]],
    ['a DELETE of JDK 17', [[jdk17('DELETE /checkouts/1', 0)]]],
    ['a POST of JDK 17', [[jdk17('POST /checkouts/1', 7, json), apartMs, body]]],
    ['a POST of JDK 17 in one piece', [[jdk17('POST /checkouts/1', 7, json) + body]]],
    [
      'a POST of JDK 17 in three pieces',
      [[`${jdk17('POST /checkouts/1', 7, json)}{`, apartMs, '"a"', apartMs, ':1}']],
    ],
    [
      'GET and POST of JDK 17',
      [
        [jdk17('GET /checkouts/1', 0)],
        [jdk17('POST /checkouts/1', 7, json), apartMs, body],
      ],
    ],
    ['a GET of Apache HttpClient', [[apacheGet('GET /checkouts/1')]]],
    [
      'GET and POST of Apache HttpClient',
      [[apacheGet('GET /checkouts/1')], [apachePost('POST /checkouts/1', 7) + body]],
    ],
    [
      'POST and GET of Apache HttpClient',
      [[apachePost('POST /checkouts/1', 7) + body], [apacheGet('GET /checkouts/1')]],
    ],
  ])('%s', async (_what, requests) => {
    const client = new RawConnection(gateway.url)
    for (let time = 0; time < 12; time += 1) {
      for (const step of requests[time % requests.length] ?? []) {
        if (typeof step === 'number') await pause(step)
        else client.write(step as string)
      }
      const answer = await client.answer()
      expect(answer.body.toString()).toBe('/checkouts/1')
      expect(valuesOf(answer.rawHeaders, 'connection')).toEqual(['keep-alive'])
    }
    expect(gateway.received).toHaveLength(12)
    for (const { headers, method, body: received } of gateway.received) {
      expect(headers).not.toHaveProperty('upgrade')
      expect(received.toString()).toBe(method === 'POST' ? body : '')
    }
  })

  test('also if its body waits for 100 Continue', async () => {
    const client = new RawConnection(gateway.url)
    for (let time = 0; time < 3; time += 1) {
      client.write(jdk17('POST /checkouts/1', 7, ['Expect: 100-Continue']))
      while (!client.received.includes('100 Continue\r\n\r\n')) await pause(1)
      client.write(body)
      const answer = await client.answer()
      expect(answer.informational).toHaveLength(1)
      expect(valuesOf(answer.rawHeaders, 'connection')).toEqual(['keep-alive'])
    }
    expect(gateway.received.map((received) => received.body.toString())).toEqual(
      Array.from({ length: 3 }, () => body),
    )
  })

  test('also if its requests overtake the answers, in pieces of their own', async () => {
    const client = new RawConnection(gateway.url)
    for (let time = 0; time < 4; time += 1) {
      client.write(jdk19(`GET /checkouts/${time}?delay=200`))
      await pause(apartMs)
    }
    for (let time = 0; time < 4; time += 1)
      expect((await client.answer()).body.toString()).toBe(`/checkouts/${time}?delay=200`)
  })
})

// Node drops what comes in one piece behind such a request. Here that is the head of a POST, and its body would be
// read as the next request.
describe('a connection that was kept ends if bytes behind an upgrade may be lost', () => {
  const hidden = `POST /checkouts/hidden HTTP/1.1\r\nHost: a\r\nContent-Length: ${smuggled.length}\r\n\r\n`
  const first = jdk17('GET /checkouts/first', 0)
  const seen = () => gateway.received.map(({ target }) => target)

  const answered: Step = (socket) =>
    new Promise((resolve) => socket.once('data', resolve))

  /** Keeps a connection, sends the steps on it and then what a smuggler wants to be read as a request. */
  async function smuggle(...steps: Step[]): Promise<void> {
    const { answers } = await attack(gateway.url, [
      first,
      answered,
      ...steps,
      apartMs,
      smuggled,
    ])
    const served = answers.filter(({ status }) => status === 200)
    expect(served.at(0)?.headers.get('connection')).toEqual(['keep-alive'])
    expect(served.at(-1)?.headers.get('connection')).toEqual(['close'])
    for (const target of seen()) expect(target).not.toMatch(/hidden|smuggled/)
  }

  test.each<[string, Step[]]>([
    ['a GET', [jdk19('GET /checkouts/up') + hidden]],
    ['a GET with the length 0', [jdk17('GET /checkouts/up', 0) + hidden]],
    ['a GET with a body', [jdk17('GET /checkouts/up', 2) + '{}'.concat(hidden)]],
    ['a POST', [jdk17('POST /checkouts/up', 7) + body + hidden]],
    [
      'the body of a POST',
      [jdk17('POST /checkouts/up', 7), apartMs, body.concat(hidden)],
    ],
    [
      'a half body of a POST',
      [`${jdk17('POST /checkouts/up', 7)}{"a`, apartMs, '":1}'.concat(hidden)],
    ],
    [
      'a chunked POST',
      [
        `${jdk19('POST /checkouts/up').replace('\r\n\r\n', '\r\nTransfer-Encoding: chunked\r\n\r\n')}` +
          `2\r\n{}\r\n0\r\n\r\n${hidden}`,
      ],
    ],
    ['a GET of HTTP/1.0', [jdk19('GET /checkouts/up').replace('/1.1', '/1.0') + hidden]],
    [
      'a GET, and one more',
      [jdk19('GET /checkouts/up') + jdk19('GET /checkouts/hidden')],
    ],
    ['an empty line', [`\r\n${jdk19('GET /checkouts/up')}`]],
  ])('%s', async (_what, steps) => {
    await smuggle(...steps)
    expect(seen()).toEqual(['/checkouts/first', '/checkouts/up'])
  })

  /** Each header lacks the blank that is counted, so one byte more fits into the count. */
  const blankless = (target: string, headers: string[], count: number) => {
    const lines = ['Host:a', ...headers]
    while (lines.length < count) lines.push(`x-${lines.length}:0`)
    return request(`GET ${target}`, lines)
  }
  const upgrade = ['Connection:Upgrade', 'Upgrade:h2c']

  test('a head without blanks', async () => {
    await smuggle(blankless('/checkouts/up', upgrade, hidden.length) + hidden)
  })

  // Where the end of a message was not counted, a stated length must not make up for it.
  test('a POST that states as much as was not counted before it', async () => {
    const plain = 'POST /checkouts/plain HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n'
    const length = plain.length + body.length
    const stated = 'x'.repeat(length)
    await smuggle(
      ...[plain, apartMs, body, answered],
      ...[jdk17('POST /checkouts/up', length), apartMs, stated.concat(hidden)],
    )
  })

  // What is missing at first would come with the first bytes of the next head, which Node does not drop.
  test('a body that was whole before the count was', async () => {
    const length = 'Content-Length:2'
    const up = `${blankless('/checkouts/up?delay=300', [...upgrade, length], 9)}{}`
    await smuggle(up, apartMs, hidden.slice(0, 9), apartMs, hidden.slice(9))
  })

  // Node drops nothing behind these, so the bytes that may be hidden add up from one request to the next.
  test.each([
    ['that do not ask', []],
    ['that name an upgrade without asking for it', ['Upgrade:h2c']],
  ])('heads without blanks %s in front of one that asks', async (_what, headers) => {
    const all = ['/checkouts/a', '/checkouts/b']
      .map((target) => blankless(target, headers, 9))
      .concat(blankless('/checkouts/up', upgrade, 9), hidden)
      .join('')
    const pieces: Step[] = []
    let from = 0
    for (let index = 1; index <= 3; index += 1) {
      // The count of each is met by nine bytes more than the head has.
      const head =
        index === 3
          ? blankless('/checkouts/up', upgrade, 9)
          : blankless('/checkouts/a', headers, 9)
      pieces.push(all.slice(from, from + head.length + 9), apartMs)
      from += head.length + 9
    }
    await smuggle(...pieces, all.slice(from))
  })

  test('in a shutdown, whatever is certain', async () => {
    const upstream = await recordingUpstream()
    const own = await gatewayTo(upstream.url)
    const client = new RawConnection(own.url, jdk17('POST /checkouts/up', 7))
    await pause(apartMs)
    const closed = own.close()
    client.write(body)
    const answer = await client.answer()
    expect(answer.status).toBe(200)
    expect(valuesOf(answer.rawHeaders, 'connection')).toEqual(['close'])
    await Promise.all([closed, client.closed()])
  })
})
