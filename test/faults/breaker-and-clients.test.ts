import type { Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { orderStage, post, termsOf } from '../support/clients/orders.ts'
import { ask, counted } from '../support/clients/quotes.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { aSecond, pause, rawUpstream, recordingUpstream, until } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'

// What one client does must not close the door for others while the provider is well.

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`
const chunkBytes = 100_000

/** A client that sends the head of a long request, some of its body, and then nothing more. */
function beginUpload(url: string, path: string): RawConnection {
  const client = new RawConnection(url)
  client.write(
    `POST ${path} HTTP/1.1\r\nHost: g\r\nApp-Name: other\r\nContent-Length: 500000\r\n\r\n${'x'.repeat(chunkBytes)}`,
  )
  return client
}

describe('an upload that tries whether an outage is over', () => {
  const settings = { breakerFailures: 1, breakerOpenMs: 300 }

  test('keeps live orders waiting for breakerOpenMs, however long it takes', async () => {
    const stage = await orderStage(settings)
    const quote = await stage.quote()
    const { takeOrder } = stage.provider
    stage.provider.takeOrder = (_request, response) => void response.writeHead(503).end()
    expect((await stage.order(termsOf(quote))).status).toBe(503)
    await aSecond()
    expect((await stage.order(termsOf(quote))).status).toBe(503)
    stage.provider.takeOrder = takeOrder
    await pause(350)
    beginUpload(stage.gateway.url, '/v3/orders')
    await until(() => stage.arrived().length === 3, 'the upload to be the one that tries')
    await pause(350)
    expect((await stage.order(termsOf(quote))).status).toBe(201)
    expect((await stage.order(termsOf(quote))).status).toBe(201)
  })

  test('does not keep other requests waiting longer', async () => {
    const stage = await orderStage(settings)
    stage.upstream.answer((_request, response) => void response.writeHead(503).end())
    expect((await ask(stage.gateway.url, { path: '/v3/orders/1' })).status).toBe(503)
    await aSecond()
    expect((await ask(stage.gateway.url, { path: '/v3/orders/1' })).status).toBe(503)
    stage.upstream.answer((_request, response) => void response.end('ok'))
    await pause(350)
    beginUpload(stage.gateway.url, '/v3/anything')
    await until(() => stage.arrived().length === 1, 'the upload to be the one that tries')
    await pause(350)
    expect((await ask(stage.gateway.url, { path: '/v3/orders/1' })).status).toBe(200)
  })
})

const cuts: [string, (socket: Socket) => void][] = [
  ['resets', (socket) => socket.resetAndDestroy()],
  ['closes', (socket) => socket.destroy()],
  ['answers 413 and closes', (socket) => refuse(socket, '413 Too Large')],
  ['answers 502 and closes', (socket) => refuse(socket, '502 Bad Gateway')],
  ['answers 503 and closes', (socket) => refuse(socket, '503 Unavailable')],
]

function refuse(socket: Socket, status: string): void {
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
  socket.destroySoon()
}

describe('uploads that the provider cuts open no breaker', () => {
  const limits = { breakerFailures: 3, breakerOpenMs: 60_000, retries: 0 }

  /** Cuts uploads short as soon as they begin, and takes all else. */
  const pickyUpstream = (cut: (socket: Socket) => void) =>
    rawUpstream((socket, received) => {
      if (received.includes('content-length') || received.includes('chunked')) cut(socket)
      else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nit')
    })

  describe.each(['/kind/order', '/anything'])('%s', (path) => {
    test.each(cuts)('when it %s in the middle of them', async (_how, cut) => {
      const upstream = await pickyUpstream(cut)
      const edge = await edgeTo(upstream.url, limits)
      for (let count = 0; count < 6; count += 1) await beginUpload(edge.url, path).answer()
      expect(edge.states).toEqual([])
    })

    test.each(cuts)('when it %s and they are sent at once', async (_how, cut) => {
      const upstream = await pickyUpstream(cut)
      const edge = await edgeTo(upstream.url, limits)
      for (const bytes of [70_000, 300_000, 3_000_000, 10_000_000]) {
        const client = new RawConnection(edge.url)
        client.write(post('x'.repeat(bytes), { path, headers: [] }))
        await client.answer()
      }
      expect(edge.states).toEqual([])
    })
  })

  test('when it reads nothing more and lets them time out', async () => {
    const upstream = await rawUpstream((socket) => void socket.pause())
    const edge = await edgeTo(upstream.url, { ...limits, breakerFailures: 1, headersTimeoutMs: 300 })
    const client = new RawConnection(edge.url)
    client.write(post('x'.repeat(20_000_000), { path: '/anything', headers: [] }))
    expect((await client.answer()).status).toBe(504)
    expect(edge.states).toEqual([])
  })

  test("even if one was the breaker's trial: the next request tries at once", async () => {
    let isDown = true
    const upstream = await recordingUpstream((request, response) => {
      if (isDown) response.writeHead(503).end()
      else if (request.target === '/upload') response.socket?.resetAndDestroy()
      else response.end('ok')
    })
    const edge = await edgeTo(upstream.url, { ...limits, breakerFailures: 1, breakerOpenMs: 300 })
    await rawExchange(edge.url, get('/a'))
    isDown = false
    await pause(350)
    const upload = post('x'.repeat(chunkBytes), { path: '/upload', headers: [] })
    expect((await rawExchange(edge.url, upload)).status).toBe(502)
    expect(edge.states).toEqual(['rest open', 'rest half-open'])
    expect((await rawExchange(edge.url, get('/b'))).status).toBe(200)
    expect(edge.states).toEqual(['rest open', 'rest half-open', 'rest closed'])
  })

  test.each(['resets', '503'])(
    'unless the body was short, came in pieces and was sent whole: %s',
    async (how) => {
      const upstream = await recordingUpstream((_request, response) => {
        if (how === 'resets') response.socket?.resetAndDestroy()
        else response.writeHead(503).end()
      })
      const edge = await edgeTo(upstream.url, { ...limits, breakerFailures: 1 })
      const client = new RawConnection(edge.url)
      client.write('POST /a HTTP/1.1\r\nHost: g\r\nContent-Length: 8\r\n\r\nhalf')
      await until(() => upstream.requests.length === 1, 'the half to arrive')
      client.write('half')
      await client.answer()
      expect(edge.states).toEqual(['rest open'])
    },
  )
})

test('an answer that the provider breaks off because its client does not read opens no breaker', async () => {
  const sockets: Socket[] = []
  const upstream = await rawUpstream((socket) => {
    sockets.push(socket)
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n')
    socket.write(Buffer.alloc(20_000_000))
  })
  const edge = await edgeTo(upstream.url, { breakerFailures: 1, breakerOpenMs: 60_000, retries: 0 })
  const client = new RawConnection(edge.url)
  client.socket.pause()
  client.write(get('/big'))
  await until(() => sockets.length === 1, 'the request to arrive')
  await pause(1_500)
  sockets[0]?.resetAndDestroy()
  client.socket.resume()
  await until(() => edge.outcomes.length === 1, 'its end')
  expect([edge.outcomes, edge.states]).toEqual([['http_response_incomplete'], []])
})

describe('one failing pair', () => {
  const spellings = ['BAD_PAIR', 'bAD_PAIR', 'BAD_PAIR;a=1', 'BAD%5FPAIR', '%42AD_PAIR%3Ba=1', 'bad_pair;']

  test('counts as one pair in all its spellings, and stops no other pair', async () => {
    const stage = await orderStage({ breakerFailures: 5, METRICS_PAIRS: 'Bad_Pair' })
    stage.upstream.answer(({ target }, response) => {
      if (target.includes('ETH')) response.end('{}')
      else response.writeHead(503).end()
    })
    const askFor = (pair: string) => ask(stage.gateway.url, { path: `/v3/pairs/${pair}/quotes?amount=1` })
    for (const pair of spellings.slice(0, 4)) await askFor(pair)
    await aSecond()
    await askFor('%42AD_PAIR%3Ba=1')
    expect((await askFor('ETH_USDC')).status).toBe(200)
    for (const pair of spellings) expect(JSON.parse((await askFor(pair)).body).breaker).toBe('pair')
    expect(await counted(stage.gateway, 'quotegate_breaker_open_pairs{pair="Bad_Pair"}')).toBe(1)
    expect(await counted(stage.gateway, 'quotegate_breaker_open_pairs{pair="other"}')).toBe(0)
  })
})
