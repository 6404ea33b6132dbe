import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer, type LookupFunction, type Socket } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { post } from '../support/clients/orders.ts'
import { proxyStatus } from '../support/clients/problems.ts'
import { type ParsedAnswer, rawExchange } from '../support/clients/raw-connection.ts'
import {
  gatewayWith,
  pause,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'
import { listening } from '../support/machine/listening.ts'
import { keptLog } from '../support/observing/log-lines.ts'
import { type ConnectProxy, connectProxy } from '../support/upstreams/connect-proxy.ts'
import {
  type Identity,
  identityOf,
  tlsUpstream,
} from '../support/upstreams/tls-upstream.ts'

/** Its key takes a second to make. */
let identity: Identity | undefined

/** An https upstream that only its proxy can resolve. */
async function stage({
  connectTimeoutMs = 3_000,
  ...more
}: {
  connectTimeoutMs?: number
  connectionLifeMs?: number
} = {}) {
  identity ??= identityOf('upstream.test')
  const upstream = await tlsUpstream(identity)
  const proxy = await connectProxy('Basic bWU6aHVudGVyMg==')
  const asked: string[] = []
  const lookup: LookupFunction = (name, ...rest) => {
    asked.push(name)
    noSuchName(name, ...rest)
  }
  const origin = `https://upstream.test:${upstream.port}`
  const options = { proxy: proxy.address, tls: { ca: identity.cert }, lookup, ...more }
  const edge = await edgeTo(origin, { retries: 0, connectTimeoutMs }, options)
  return { upstream, proxy, edge, asked }
}

describe('an https upstream behind UPSTREAM_PROXY', { tags: ['openssl'] }, () => {
  it('is reached by CONNECT, which alone has the credentials; the proxy resolves its name', async () => {
    const { upstream, proxy, edge, asked } = await stage()
    const { status, body } = await rawExchange(edge.url, post('{"amount":"1.00"}'))
    expect([status, body.toString()]).toEqual([200, '{"amount":"1.00"}'])
    const authority = `upstream.test:${upstream.port}`
    expect(proxy.heads).toEqual([
      `CONNECT ${authority} HTTP/1.1\r\nhost: ${authority}\r\nconnection: close\r\nProxy-Authorization: Basic bWU6aHVudGVyMg==\r\n\r\n`,
    ])
    expect(upstream.requests).toHaveLength(1)
    expect(upstream.requests[0]?.rawHeaders.join()).not.toMatch(/proxy/i)
    expect(asked).toEqual([])
  })

  it('keeps its tunnel for more requests, and makes another once that is old or cut', async () => {
    const { upstream, proxy, edge } = await stage({ connectionLifeMs: 60_000 })
    const send = async () =>
      expect((await rawExchange(edge.url, post('{}'))).status).toBe(200)
    for (let times = 0; times < 5; times += 1) await send()
    expect([proxy.heads.length, upstream.requests.length]).toEqual([1, 5])
    expect(edge.upstream.connections).toMatchObject({
      busy: 0,
      idle: 1,
      lanes: { waiting: 0 },
    })
    for (const { client } of proxy.tunnels) client.resetAndDestroy()
    await until(() => edge.upstream.connections.idle === 0, 'the reset to be seen')
    await send()
    expect([proxy.heads.length, upstream.requests.length]).toEqual([2, 6])

    for (const connectionLifeMs of [0, 20]) {
      const old = await stage({ connectionLifeMs })
      for (let times = 0; times < 3; times += 1) {
        expect((await rawExchange(old.edge.url, post('{}'))).status).toBe(200)
        await pause(connectionLifeMs * 2)
      }
      expect(old.proxy.heads).toHaveLength(3)
      // What is too old when its answer ends is closed then, and not because it is idle.
      if (connectionLifeMs === 0)
        await until(() => old.proxy.tunnels.size === 0, 'the end', 2_000)
    }
  })

  it("is not called if the certificate behind the proxy is another host's", async () => {
    const { upstream, proxy, edge } = await stage()
    const other = await tlsUpstream(identityOf('other.test'))
    proxy.answer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      const behind = connect(other.port, '127.0.0.1').on('error', () => {})
      socket.pipe(behind).pipe(socket)
    })
    const answer = await rawExchange(edge.url, post('{}'))
    expect(told(answer)).toEqual([502, true, 'quotegate; error=tls_certificate_error'])
    expect([upstream.requests, other.requests]).toEqual([[], []])
  })
})

/** The status of a problem, whether the request can be sent again, and why. */
function told(answer: ParsedAnswer): unknown[] {
  const { retryable } = JSON.parse(answer.body.toString()) as { retryable: boolean }
  return [answer.status, retryable, proxyStatus(answer)]
}

const noSuchName: LookupFunction = (_name, _options, callback) =>
  callback(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), '')

/** Of a server that stands still, with more connections in its backlog than that has room for. */
async function portThatAcceptsNone(): Promise<number> {
  const program =
    "const server = require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => " +
    'process.stdout.write(String(server.address().port), () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)))'
  const server = spawn(process.execPath, ['-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void server.kill('SIGKILL'))
  const [printed] = await once(server.stdout, 'data')
  const port = Number(String(printed))
  for (let count = 0; count < 4; count += 1) {
    const filling = connect(port, '127.0.0.1').on('error', () => {})
    onTestFinished(() => void filling.destroy())
  }
  await pause(300)
  return port
}

type Answer = (socket: Socket) => void
const says = (bytes: string) => (socket: Socket) => void socket.write(bytes, 'latin1')
const ends = (bytes: string) => (socket: Socket) => void socket.end(bytes, 'latin1')

describe('a proxy that opens no tunnel: nothing was sent, and it can be sent again', {
  tags: ['openssl'],
}, () => {
  const unavailable: readonly [string, Answer][] = [
    [
      '407',
      says('HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 4\r\n\r\nwhy?'),
    ],
    ['502', says('HTTP/1.1 502 Bad Gateway\r\n\r\n')],
    ['an end without an answer', ends('')],
    ['a reset', (socket) => void socket.resetAndDestroy()],
    [
      'a head without end',
      (socket) => void socket.write(`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(20_000)}`),
    ],
    [
      'an interim answer before its own',
      says('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n'),
    ],
    ['another protocol', says('SSH-2.0-OpenSSH_9.2\r\n')],
    [
      'bytes behind its 200',
      says('HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfake'),
    ],
  ]

  it.each(unavailable)(
    '%s is reported as destination_unavailable',
    async (_case, answer) => {
      const { upstream, proxy, edge } = await stage({ connectTimeoutMs: 60_000 })
      proxy.answer(answer)
      const got = await rawExchange(edge.url, post('{}'))
      expect(told(got)).toEqual([502, true, 'quotegate; error=destination_unavailable'])
      expect([upstream.requests, edge.outcomes]).toEqual([
        [],
        ['destination_unavailable'],
      ])
      await until(() => proxy.tunnels.size === 0, 'no tunnel')
    },
  )

  it.each<[string, Answer]>([
    ['504', says('HTTP/1.1 504 Gateway Timeout\r\n\r\n')],
    ['no answer at all', () => {}],
    ['a tunnel to nowhere, in which TLS never begins', says('HTTP/1.1 200 OK\r\n\r\n')],
  ])('%s is reported as connection_timeout', async (_case, answer) => {
    const { upstream, proxy, edge } = await stage({ connectTimeoutMs: 300 })
    const closed: boolean[] = []
    proxy.answer((socket) => {
      socket.on('close', () => closed.push(true))
      answer(socket)
    })
    const got = await rawExchange(edge.url, post('{}'))
    expect(told(got)).toEqual([504, true, 'quotegate; error=connection_timeout'])
    expect(upstream.requests).toEqual([])
    await until(() => closed.length === 1, 'the connection to the proxy to be closed')
  })

  // The upstream refused nothing, and its name was not looked up.
  it.each([
    ['one that refuses connections', '127.0.0.2'],
    ['one whose name cannot be resolved', 'proxy.test'],
  ])('%s is reported as destination_unavailable', async (_case, host) => {
    const { port } = await recordingUpstream()
    const options = {
      proxy: { host, port, authorization: undefined },
      lookup: noSuchName,
    }
    const edge = await edgeTo('https://upstream.test', { retries: 0 }, options)
    const answer = await rawExchange(edge.url, post('{}'))
    expect(told(answer)).toEqual([502, true, 'quotegate; error=destination_unavailable'])
    const { detail } = JSON.parse(answer.body.toString())
    expect(detail).toMatch(/^No network path leads to the swap API/)
  })

  it('reached at an IPv6 address', async () => {
    const proxy = createServer((socket) => {
      socket
        .on('error', () => {})
        .once('data', () => socket.end('HTTP/1.1 403 Forbidden\r\n\r\n'))
    })
    const { port } = await listening(proxy, 0, '::1')
    const options = { proxy: { host: '::1', port, authorization: undefined } }
    const edge = await edgeTo('https://upstream.test', { retries: 0 }, options)
    const answer = await rawExchange(edge.url, post('{}'))
    expect(told(answer)).toEqual([502, true, 'quotegate; error=destination_unavailable'])
  })

  // A Client that is destroyed leaves its socket connecting, for as long as the kernel tries: two minutes.
  it('to which no connection can be made leaves no socket behind', async () => {
    const port = await portThatAcceptsNone()
    const options = { proxy: { host: '127.0.0.1', port, authorization: undefined } }
    const edge = await edgeTo(
      'https://upstream.test',
      { retries: 0, connectTimeoutMs: 300 },
      options,
    )
    const connecting = () =>
      process.getActiveResourcesInfo().filter((what) => what.endsWith('ConnectWrap'))
    const before = connecting()
    for (let times = 0; times < 3; times += 1)
      expect(told(await rawExchange(edge.url, post('{}')))[0]).toBe(504)
    await until(() => connecting().length === before.length, 'all to be closed')
  })
})

it.each([
  [
    'any 2xx, with a length that means nothing',
    'HTTP/1.0 204 Done\r\nContent-Length: 5\r\n\r\n',
  ],
  ['no reason', 'HTTP/1.1 200\r\n\r\n'],
])('a tunnel is opened by %s', { tags: ['openssl'] }, async (_case, head) => {
  const { proxy, edge } = await stage()
  proxy.answer((_socket, open) => open(head))
  expect((await rawExchange(edge.url, post('{}'))).status).toBe(200)
})

describe('a gateway with UPSTREAM_PROXY', { tags: ['openssl'] }, () => {
  async function gatewayBehind(proxy: ConnectProxy, paymentsUrl: string) {
    const identity = identityOf()
    const upstream = await tlsUpstream(identity)
    const log = await keptLog()
    const gateway = await gatewayWith(
      {
        SWAP_BASE_URL: `https://localhost:${upstream.port}`,
        SWAP_CA_FILE: identity.certFile,
        PAYMENTS_BASE_URL: paymentsUrl,
        UPSTREAM_PROXY: proxy.url.replace('//', '//m%40e:hunter%3A2@'),
        retries: 0,
      },
      { logger: log.logger },
    )
    return { gateway, upstream, log }
  }

  const pairs = 'GET /v3/pairs HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n\r\n'

  it('reaches https upstreams through it with its credentials decoded, and http upstreams directly', async () => {
    const payments = await recordingUpstream()
    const proxy = await connectProxy()
    const { gateway, upstream } = await gatewayBehind(proxy, payments.url)
    expect((await rawExchange(gateway.url, pairs)).status).toBe(200)
    expect(
      (await rawExchange(gateway.url, post('{}', { path: '/checkouts' }))).status,
    ).toBe(200)
    expect([
      upstream.requests.length,
      payments.requests.length,
      proxy.heads.length,
    ]).toEqual([1, 1, 1])
    const basic = Buffer.from('m@e:hunter:2').toString('base64')
    expect(proxy.heads[0]).toContain(`\r\nProxy-Authorization: Basic ${basic}\r\n`)
  })

  it('names it in the log, and shows its credentials nowhere', async () => {
    const payments = await recordingUpstream()
    const unreachable = {
      ...(await connectProxy()),
      url: `http://127.0.0.2:${payments.port}`,
    }
    const one = await gatewayBehind(unreachable, payments.url)
    expect((await rawExchange(one.gateway.url, pairs)).status).toBe(502)
    expect(one.log.text()).toContain('UPSTREAM_PROXY cannot be reached (ECONNREFUSED)')
    const proxy = await connectProxy()
    proxy.answer(says('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n'))
    const { gateway, log } = await gatewayBehind(proxy, payments.url)
    const problem = await rawExchange(gateway.url, pairs)
    expect(problem.status).toBe(502)
    // True of a proxy that refuses as of a network without a route.
    expect(JSON.parse(problem.body.toString()).detail).toMatch(
      /^No network path leads to the swap API\. Nothing/,
    )
    const pages = ['/settings', '/status', '/metrics', '/'].map(async (path) => {
      return (await fetch(gateway.operationsUrl + path)).text()
    })
    const [settings = '', ...others] = await Promise.all(pages)
    expect(settings).toContain('http://****@127.0.0.1')
    expect(log.text()).toContain('answered CONNECT with 407')
    const logs = one.log.text() + log.text()
    const all = [
      settings,
      ...others,
      logs,
      problem.body.toString(),
      problem.rawHeaders.join(),
    ].join('\n')
    expect(all).not.toMatch(/hunter|m%40e|m@e/)
    expect(all).not.toContain(Buffer.from('m@e:hunter:2').toString('base64'))
  })
})
