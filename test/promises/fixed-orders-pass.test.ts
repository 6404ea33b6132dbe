import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { orderStage, post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { counted } from '../support/clients/quotes.ts'
import { RawConnection, valuesOf } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream, recordingUpstream, until } from '../support/gateways/between.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'

const path = '/v3/orders'
/** Longer than any test: a test that waits for it fails. */
const veryLongMs = 600_000
const unfinished = (length = 100) => post('{"a":', { path, headers: [`Content-Length: ${length}`] })

describe('a fixed order that names a known quote is refused: POST /v3/orders', () => {
  it.each<[string, (id: string) => string | Buffer]>([
    ['as quoteId', (id) => `{"quoteId":"${id}","pairId":"X"}`],
    ['as quote.id', (id) => ` { "quote" : { "id" : "${id}" } } `],
    ['as id', (id) => `{"id":"${id}"}`],
    ['among ids of no quote', (id) => `{"quoteId":"other","id":"${id}"}`],
    ['in a body of 65,536 bytes', (id) => `{"id":"${id}"}`.padEnd(65_536)],
  ])(
    'is answered float-order-required, live or expired (%s), and the connection stays open',
    async (_how, body) => {
      const { arrived, clock, gateway, quote } = await orderStage()
      const { id, expiry } = await quote()
      const client = new RawConnection(gateway.url)
      for (const nowMs of [expiry - 1, expiry]) {
        clock.set(nowMs)
        client.write(post(body(id), { path }))
        expect(expectProblem(await client.answer(), 409, 'float-order-required')).toMatchObject({
          quoteId: id,
          use: '/v3/orders/float',
        })
      }
      expect(arrived()).toHaveLength(0)
      client.write(post('{}', { path }))
      expect((await client.answer()).status).toBe(201)
    },
  )

  it.each([
    '/v3/orders/',
    '/v3//orders',
    '/v3/Orders',
    '/v3/%6frders',
    '/v3/orders;a=b',
    '/v3/orders?x=1',
    '/v3/orders.v1',
    '/v3/orders.',
    '/v3/orders%20',
    '/v3/orders%0a/',
    '/v3/orders%5c',
  ])('is answered float-order-required also by way of %s', async (odd) => {
    const { arrived, order, quote } = await orderStage()
    const { id } = await quote()
    expectProblem(await order({ quoteId: id }, { path: odd }), 409, 'float-order-required')
    expect((await order({ quoteId: 'other' }, { path: odd })).status).toBe(201)
    expect(arrived().map(({ target }) => target)).toEqual([odd])
  })
})

describe('any other fixed order is relayed, byte for byte: POST /v3/orders', () => {
  it.each<[string, string | Buffer, string[]]>([
    ['as it was spelled', ' {"b":1,\t"a":0.1000000000000000055, "é":"\\u00e9"}\n', []],
    ['with the terms of a quote', '{"pairId":"ETH_USDC","fromAmount":0.1,"toAmount":289.645}', []],
    ['empty', '', []],
    ['malformed', '{"quoteId":', []],
    ['with a key twice', '{"id":1,"id":1}', []],
    ['nested deeply', '['.repeat(5_000), []],
    ['as text', 'quoteId=1', ['Content-Type: application/x-www-form-urlencoded']],
    ['compressed', gzipSync('{"quoteId":"1"}'), ['Content-Encoding: gzip']],
    ['as bytes', randomBytes(65_536), []],
    ['as more bytes than are looked at', randomBytes(65_537), []],
  ])('%s, byte for byte', async (_what, body, headers) => {
    const { arrived, order, quote } = await orderStage({ ORDER_UNKNOWN_QUOTE: 'refuse' })
    await quote()
    expect((await order(body, { path, headers })).status).toBe(201)
    expect(arrived()[0]?.body.equals(Buffer.from(body))).toBe(true)
    expect(arrived()[0]?.headers['content-length']).toBe(String(Buffer.byteLength(body)))
  })

  it('with the id of a quote in a body that is compressed or too long to be looked at', async () => {
    const { arrived, order, quote } = await orderStage()
    const { id } = await quote()
    const named = JSON.stringify({ quoteId: id })
    for (const body of [gzipSync(named), named]) {
      // What the second one is in truth is not ours to guess.
      expect((await order(body, { path, headers: ['Content-Encoding: gzip'] })).status).toBe(201)
    }
    expect((await order(named.padEnd(65_537), { path })).status).toBe(201)
    expect(arrived()).toHaveLength(3)
  })

  it('slowly, in chunks', async () => {
    const { arrived, gateway } = await orderStage()
    const client = new RawConnection(gateway.url)
    client.write(post('', { path, headers: ['Transfer-Encoding: chunked'] }))
    for (const part of ['{"a"', ': 1', ' }']) {
      await pause(20)
      client.write(`${part.length}\r\n${part}\r\n`)
    }
    client.write('0\r\n\r\n')
    expect((await client.answer()).status).toBe(201)
    expect(arrived()[0]?.body.toString()).toBe('{"a": 1 }')
  })

  it('no faster than the upstream reads it', async () => {
    const upstream = await recordingUpstream(undefined, { listener: (request) => request.pause() })
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    const total = 40_000_000
    client.write(post('', { path, headers: [`Content-Length: ${total}`] }))
    client.write(Buffer.alloc(total))
    await until(() => upstream.requests.length === 1, 'the request to arrive')
    let sent = -1
    // Two looks a while apart that find no progress: all buffers on the way are full.
    while (client.socket.bytesWritten - client.socket.writableLength !== sent) {
      sent = client.socket.bytesWritten - client.socket.writableLength
      await pause(300)
    }
    expect(client.socket.writableLength).toBeGreaterThan(0)
    client.socket.resetAndDestroy()
    // Nothing is read from this client, its reset neither: the gateway would wait 10 s for the upstream.
    await upstream.close()
  })
})

describe('POST /v3/orders that is not finished', () => {
  it('is answered early by the upstream when it is too long to be looked at, and the client gets that answer', async () => {
    const upstream = await rawUpstream((socket) => {
      socket.write('HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno')
    })
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(Buffer.concat([unfinished(1_000_000), Buffer.alloc(70_000, ' ')]))
    const answer = await client.answer()
    expect([answer.status, answer.body.toString(), answer.whole]).toEqual([413, 'no', true])
  })

  it.each([
    ['before any of it could be looked at', 0, 'destroy'],
    ['before any of it could be looked at, by a reset', 0, 'resetAndDestroy'],
    ['after more than is looked at', 70_000, 'destroy'],
    ['after more than is looked at, by a reset', 70_000, 'resetAndDestroy'],
  ] as const)(
    'when its client leaves, %s, is never carried out, and does not count as a failure',
    async (_when, more, leave) => {
      const escaped = escapedErrors()
      const { gateway, upstream } = await orderStage({ DRAIN_TIMEOUT_MS: veryLongMs })
      const client = new RawConnection(gateway.url)
      client.write(Buffer.concat([unfinished(1_000_000), Buffer.alloc(more, ' ')]))
      if (more > 0) await until(() => upstream.requests.length === 1, 'the request to arrive')
      else await pause(100)
      client.socket[leave]()
      // Ends with the last connection, and not before the gateway has noticed that its client left.
      await gateway.close()
      expect(upstream.requests.filter(({ complete }) => complete)).toHaveLength(0)
      expect(await counted(gateway, 'quotegate_problems_total{type="internal-error"}')).toBe(0)
      expect(escaped).toEqual([])
    },
  )

  it('within bodyIdleTimeoutMs is given up with a 408 and closed', async () => {
    const { arrived, gateway } = await orderStage({ bodyIdleTimeoutMs: 200 })
    const client = new RawConnection(gateway.url)
    client.write(unfinished())
    const answer = await client.answer()
    expectProblem(answer, 408, 'request-timeout')
    expect(valuesOf(answer.rawHeaders, 'connection')).toEqual(['close'])
    await client.closed()
    expect(arrived()).toHaveLength(0)
  })
})
