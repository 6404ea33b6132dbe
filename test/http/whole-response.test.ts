import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { expect, it, onTestFinished, vi } from 'vitest'
import { Events } from '../../src/events.ts'
import type { Gateway } from '../../src/gateway/types.ts'
import { headLines, isSent, TrafficResponse } from '../../src/http/answer.ts'
import { dateLine } from '../../src/http/date.ts'
import { createTrafficServer, type TrafficServer } from '../../src/server/traffic-server.ts'
import { attack } from '../support/clients/attack.ts'
import { giveQuote } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'

const bodyOf = (request: IncomingMessage) => `you asked for ${request.url}`

/** Answers everything whole if it may; says how often it could. */
async function serve(): Promise<{
  server: TrafficServer
  url: string
  port: number
  whole: number[]
  broken: number
}> {
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
        if (!isSent(response)) seen.broken += 1
      })
      if (wrote) return
      response.writeHead(200, ['Content-Length', String(body.length)])
      response.end(body)
    },
  })
  const seen = { server, url: '', port: 0, whole: [] as number[], broken: 0 }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  seen.port = (server.address() as AddressInfo).port
  seen.url = `http://127.0.0.1:${seen.port}`
  return seen
}

const get = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: a\r\n${more}\r\n`
const last = (path: string) => get(path, 'Connection: close\r\n')

it('answers requests that came in one piece in their order, each whole', async () => {
  const served = await serve()
  const paths = Array.from({ length: 200 }, (_, index) => `/${index}`)
  const { answers, rest } = await attack(served.url, [paths.map((path) => get(path)).join('') + last('/end')])
  expect(answers.map(({ body }) => body)).toEqual([...paths, '/end'].map((path) => `you asked for ${path}`))
  expect(rest).toBe('')
  expect(served.whole).toEqual([...paths.map(() => 1), 0])
})

it.each([
  ['a client that closes', last('/')],
  ['HTTP/1.0', 'GET / HTTP/1.0\r\nConnection: keep-alive\r\nHost: a\r\n\r\n'],
  ['HEAD', `HEAD / HTTP/1.1\r\nHost: a\r\n\r\n`],
  ['a body that is still to come', get('/', 'Content-Length: 3\r\n')],
  ['a body in chunks', get('/', 'Transfer-Encoding: chunked\r\n')],
])('leaves %s to Node', async (_what, request) => {
  const served = await serve()
  const socket = connect(served.port, '127.0.0.1')
  onTestFinished(() => {
    socket.destroy()
  })
  socket.write(request)
  await until(() => served.whole.length > 0, 'the request to be served')
  expect(served.whole).toEqual([0])
})

it('does not serve the next request until a client has read a large answer', async () => {
  const served = await serve()
  const { answers } = await attack(served.url, [
    get('/large') + get('/small') + get('/large') + last('/end'),
    (socket) => socket.pause(),
    100,
    (socket) => socket.resume(),
  ])
  expect(answers.map(({ body }) => body.length)).toEqual([8_000_000, 20, 8_000_000, 18])
  expect(served.broken).toBe(0)
})

// Its head says that the connection is kept, so what comes next must be taken, or it is never answered and the
// connection holds up the end until it is cut.
it('serves one more request if the shutdown comes during a large answer', async () => {
  const served = await serve()
  const { answers } = await attack(served.url, [
    get('/large'),
    (socket) => socket.pause(),
    100,
    () => served.server.announceEnd(),
    get('/after'),
    100,
    (socket) => socket.resume(),
  ])
  expect(answers.map(({ body }) => body.length)).toEqual([8_000_000, 20])
  expect(answers[1]?.headers.get('connection')).toEqual(['close'])
})

// What a socket was given is not yet with the client: a closed connection must not be counted as an answer.
it('distinguishes a client that left with half an answer from one that got it whole', async () => {
  const served = await serve()
  const socket = connect(served.port, '127.0.0.1')
  socket.write(get('/large'))
  await new Promise((resolve) => socket.once('data', resolve))
  socket.destroy()
  await until(() => served.broken === 1, 'the broken answer to be noticed')
})

it('does not count an answer as sent that came after the end of its connection', async () => {
  const served = await serve()
  const socket = connect(served.port, '127.0.0.1')
  socket.resume()
  socket.write(get('/ended'))
  await until(() => served.broken === 1, 'the lost answer to be noticed')
  expect(served.whole).toEqual([0])
})

it('writes a head as Node does, with the same lines about the connection', async () => {
  const upstream = await recordingUpstream((_request, response) => giveQuote(response))
  const target = '/v3/pairs/ETH_USDC/quotes?amount=0.1'
  const request = (more: string) => get(target, `App-Name: a\r\nX-Request-Id: mine\r\n${more}`)
  const heads: string[] = []
  for (const ours of [true, false]) {
    const gateway = await gatewayTo(upstream.url)
    const url = ours ? gateway.url : await servedByNode(gateway)
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    onTestFinished(() => {
      socket.destroy()
    })
    const answer = () =>
      new Promise<string>((resolve) => socket.once('data', (data) => resolve(String(data))))
    for (const _fetchedThenHit of [1, 2]) {
      socket.write(request(''))
      heads.push((await answer()).split('\r\n\r\n', 1)[0] ?? '')
    }
  }
  const [, hit = '', , slowHit = ''] = heads
  const comparable = (head: string) =>
    head.replaceAll(/(ttl|max-age)=\d+/g, '$1=n').replace(/Date: .*/, 'Date: then')
  expect(comparable(hit)).toBe(comparable(slowHit))
  expect(hit).toContain('Cache-Status: quotegate; hit')
  expect(Math.abs(Date.parse(/Date: (.*)/.exec(hit)?.[1] ?? '') - Date.now())).toBeLessThan(30_000)
})

/** The same app on another server, where answers are written by Node. */
async function servedByNode(gateway: Gateway): Promise<string> {
  const server = createServer({ keepAliveTimeout: 65_000 }, gateway.app)
  onTestFinished(() => void server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

it.each([
  ['a line break', ['Name', 'a\r\nSet-Cookie: b']],
  ['a control character', ['Name', 'a\u0001']],
  ['what no byte is', ['Name', '\u20ac']],
  ['a name with a blank', ['Na me', 'a']],
])('writes no head lines with %s', (_what, headers) => {
  expect(headLines(['Good', 'one', ...headers])).toBeUndefined()
})

it('keeps names, values and their order in the lines of a head', () => {
  expect(headLines(['A', 'b', 'a', 'caf\xe9', 'C', ''])).toBe('A: b\r\na: caf\xe9\r\nC: \r\n')
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
