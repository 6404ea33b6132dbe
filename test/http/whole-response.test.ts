import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { expect, it, onTestFinished, vi } from 'vitest'
import { Events } from '../../src/events.ts'
import { dateLine, headLines, TrafficResponse } from '../../src/http/answer.ts'
import {
  createTrafficServer,
  type TrafficServer,
} from '../../src/server/traffic-server.ts'
import { attack } from '../support/clients/attack.ts'
import { giveQuote, quotePath } from '../support/clients/quotes.ts'
import { RawConnection } from '../support/clients/raw-connection.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import { listening } from '../support/machine/listening.ts'

const bodyOf = (request: IncomingMessage) => `you asked for ${request.url}`

/** Answers everything whole if it may; says how often it could. */
async function serve() {
  const seen = { whole: [] as number[], broken: 0 }
  const server: TrafficServer = createTrafficServer({
    headTimeoutMs: 5_000,
    events: new Events(),
    listener(request, response) {
      const body = request.url === '/large' ? 'x'.repeat(8_000_000) : bodyOf(request)
      if (request.url === '/ended') request.socket.end()
      const head = `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n${dateLine()}`
      const wrote = response instanceof TrafficResponse && response.writeWhole(head, body)
      seen.whole.push(wrote ? 1 : 0)
      response.on('close', () => {
        const isSent = response instanceof TrafficResponse && response.whole === 'sent'
        if (!isSent && !response.writableFinished) seen.broken += 1
      })
      if (wrote) return
      response.writeHead(200, ['Content-Length', String(body.length)])
      response.end(body)
    },
  })
  return { server, seen, url: (await listening(server)).url }
}

const get = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: a\r\n${more}\r\n`
const last = (path: string) => get(path, 'Connection: close\r\n')

it.each([
  ['a client that closes', last('/')],
  ['HTTP/1.0', 'GET / HTTP/1.0\r\nConnection: keep-alive\r\nHost: a\r\n\r\n'],
  ['HEAD', `HEAD / HTTP/1.1\r\nHost: a\r\n\r\n`],
  ['a body that is still to come', get('/', 'Content-Length: 3\r\n')],
  ['a body in chunks', get('/', 'Transfer-Encoding: chunked\r\n')],
])('leaves %s to Node', async (_what, request) => {
  const { seen, url } = await serve()
  new RawConnection(url).write(request)
  await until(() => seen.whole.length > 0, 'the request to be served')
  expect(seen.whole).toEqual([0])
})

it('does not serve the next request until a client has read a large answer', async () => {
  const { seen, url } = await serve()
  const { answers } = await attack(url, [
    get('/large') + get('/small') + get('/large') + last('/end'),
    (socket) => socket.pause(),
    100,
    (socket) => socket.resume(),
  ])
  expect(answers.map(({ body }) => body.length)).toEqual([8_000_000, 20, 8_000_000, 18])
  expect(seen.broken).toBe(0)
})

// Its head says that the connection is kept, so what comes next must be taken, or it is never answered and the
// connection holds up the end until it is cut.
it('serves one more request if the shutdown comes during a large answer', async () => {
  const { seen, server, url } = await serve()
  const { answers } = await attack(url, [
    get('/large'),
    (socket) => socket.pause(),
    () => until(() => seen.whole.length === 1, 'the large answer to be on its way'),
    () => server.announceEnd(),
    get('/after'),
    100,
    (socket) => socket.resume(),
  ])
  expect(answers.map(({ body }) => body.length)).toEqual([8_000_000, 20])
  expect(answers[1]?.headers.get('connection')).toEqual(['close'])
})

// What a socket was given is not yet with the client: a closed connection must not be counted as an answer.
it('distinguishes a client that left with half an answer from one that got it whole', async () => {
  const { seen, url } = await serve()
  const { socket } = new RawConnection(url, get('/large'))
  await once(socket, 'data')
  socket.destroy()
  await until(() => seen.broken === 1, 'the broken answer to be noticed')
})

it('does not count an answer as sent that came after the end of its connection', async () => {
  const { seen, url } = await serve()
  const { socket } = new RawConnection(url, get('/ended'))
  socket.on('end', () => socket.end())
  await until(() => seen.broken === 1, 'the lost answer to be noticed')
  expect(seen.whole).toEqual([0])
})

it('writes a head as Node does, with the same lines about the connection', async () => {
  const upstream = await recordingUpstream((_request, response) => giveQuote(response))
  const hits: string[] = []
  for (const urlOf of [({ url }: RunningGateway) => url, servedByNode]) {
    const connection = new RawConnection(await urlOf(await gatewayTo(upstream.url)))
    for (const how of ['stored', 'hit']) {
      connection.write(
        get(`${quotePath}?amount=0.1`, 'App-Name: a\r\nX-Request-Id: mine\r\n'),
      )
      const { rawHeaders, status, reason } = await connection.answer()
      const head = [status, reason, ...rawHeaders].join('\n')
      expect(head).toContain(how)
      if (how === 'hit')
        hits.push(
          head.replaceAll(/(ttl|max-age)=\d+/g, '$1=n').replace(/Date\n.*/, 'Date'),
        )
    }
  }
  expect(hits[0]).toBe(hits[1])
})

/** The same app on another server, where answers are written by Node. */
async function servedByNode(gateway: RunningGateway): Promise<string> {
  return (await listening(createServer({ keepAliveTimeout: 65_000 }, gateway.app))).url
}

it('keeps names, values and their order in the lines of a head, and writes none that could be read otherwise', () => {
  expect(headLines(['A', 'b', 'a', 'caf\xe9', 'C', ''])).toBe(
    'A: b\r\na: caf\xe9\r\nC: \r\n',
  )
  for (const [name = '', value = ''] of [
    ['N', 'a\r\nB: b'],
    ['N', 'a\u0001'],
    ['N', '\u20ac'],
    ['N a', 'a'],
  ])
    expect(headLines(['Good', 'one', name, value])).toBeUndefined()
})

it('writes the current second, also after the clock was set back', () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => {
    vi.useRealTimers()
  })
  const at = (iso: string) => {
    vi.setSystemTime(iso)
    return dateLine()
  }
  expect(at('2026-01-02T03:04:05.000Z')).toBe('Date: Fri, 02 Jan 2026 03:04:05 GMT\r\n')
  expect(at('2026-01-02T03:04:05.999Z')).toBe('Date: Fri, 02 Jan 2026 03:04:05 GMT\r\n')
  expect(at('2026-01-02T03:04:06.000Z')).toBe('Date: Fri, 02 Jan 2026 03:04:06 GMT\r\n')
  expect(at('2026-01-02T03:04:04.999Z')).toBe('Date: Fri, 02 Jan 2026 03:04:04 GMT\r\n')
})
