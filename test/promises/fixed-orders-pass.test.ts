import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { orderStage, post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { counted } from '../support/clients/quotes.ts'
import { RawConnection } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream, until } from '../support/gateways/between.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'

const path = '/v3/orders'
const unfinished = (length = 100) =>
  post('{"a":', { path, headers: [`Content-Length: ${length}`] })
const oddPaths =
  '/v3/orders/ /v3//orders /v3/Orders /v3/%6frders /v3/orders;a=b /v3/orders?x=1 /v3/orders.v1 /v3/orders. ' +
  '/v3/orders%20 /v3/orders%0a/ /v3/orders%5c'

describe('a fixed order that names a known quote is refused: POST /v3/orders', () => {
  it.each<[string, (id: string) => string]>([
    ['as quoteId', (id) => `{"quoteId":"${id}","pairId":"X"}`],
    ['as quote.id', (id) => ` { "quote" : { "id" : "${id}" } } `],
    ['among ids of no quote', (id) => `{"quoteId":"other","id":"${id}"}`],
    ['as id, in a body of 65,536 bytes', (id) => `{"id":"${id}"}`.padEnd(65_536)],
  ])(
    'is answered float-order-required, live or expired, and the connection stays open: %s',
    async (_how, body) => {
      const { arrived, clock, gateway, quote } = await orderStage()
      const { id, expiry } = await quote()
      const client = new RawConnection(gateway.url)
      for (const nowMs of [expiry - 1, expiry]) {
        clock.set(nowMs)
        client.write(post(body(id), { path }))
        const problem = expectProblem(await client.answer(), 409, 'float-order-required')
        expect(problem).toMatchObject({ quoteId: id, use: '/v3/orders/float' })
      }
      expect(arrived()).toHaveLength(0)
      client.write(post('{}', { path }))
      expect((await client.answer()).status).toBe(201)
    },
  )

  it.each(oddPaths.split(' '))(
    'is answered float-order-required also by way of %s',
    async (odd) => {
      const { arrived, order, quote } = await orderStage()
      const { id } = await quote()
      expectProblem(
        await order({ quoteId: id }, { path: odd }),
        409,
        'float-order-required',
      )
      expect((await order({ quoteId: 'other' }, { path: odd })).status).toBe(201)
      expect(arrived().map(({ target }) => target)).toEqual([odd])
    },
  )
})

describe('any other fixed order is relayed, byte for byte: POST /v3/orders', () => {
  const named = (id: string) => JSON.stringify({ quoteId: id })
  const gzip = ['Content-Encoding: gzip']

  it.each<[string, (knownId: string) => string | Buffer, string[]]>([
    [
      'as it was spelled',
      () => ' {"b":1,\t"a":0.1000000000000000055, "é":"\\u00e9"}\n',
      [],
    ],
    [
      'with the terms of a quote',
      () => '{"pairId":"ETH_USDC","fromAmount":0.1,"toAmount":289.645}',
      [],
    ],
    ['empty', () => '', []],
    ['malformed', () => '{"quoteId":', []],
    ['with a key twice', () => '{"id":1,"id":1}', []],
    ['nested deeply', () => '['.repeat(5_000), []],
    [
      'as bytes',
      () => randomBytes(65_536),
      ['Content-Type: application/x-www-form-urlencoded'],
    ],
    ['compressed', (id) => gzipSync(named(id)), gzip],
    // What it is in truth is not ours to guess.
    ['said to be compressed', named, gzip],
    ['too long to be looked at', (id) => named(id).padEnd(65_537), []],
  ])('%s', async (_what, bodyFor, headers) => {
    const { arrived, order, quote } = await orderStage({ ORDER_UNKNOWN_QUOTE: 'refuse' })
    const body = Buffer.from(bodyFor((await quote()).id))
    expect((await order(body, { path, headers })).status).toBe(201)
    expect(arrived()[0]?.body.equals(body)).toBe(true)
    expect(arrived()[0]?.headers['content-length']).toBe(String(body.length))
  })
})

describe('POST /v3/orders that is not finished', () => {
  it('is answered early by the upstream when it is too long to be looked at', async () => {
    const upstream = await rawUpstream((socket) => {
      socket.write(
        'HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno',
      )
    })
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(Buffer.concat([unfinished(1_000_000), Buffer.alloc(70_000, ' ')]))
    const answer = await client.answer()
    expect([answer.status, answer.body.toString(), answer.whole]).toEqual([
      413,
      'no',
      true,
    ])
  })

  it.each([
    ['before any of it could be looked at', 'destroy', 0],
    ['before any of it could be looked at', 'resetAndDestroy', 0],
    ['after more than is looked at', 'destroy', 70_000],
    ['after more than is looked at', 'resetAndDestroy', 70_000],
  ] as const)(
    'is never carried out when its caller leaves %s (%s)',
    async (_when, leave, more) => {
      const escaped = escapedErrors()
      // Longer than any test: a test that waits for it fails.
      const { gateway, upstream } = await orderStage({ DRAIN_TIMEOUT_MS: 600_000 })
      const client = new RawConnection(gateway.url)
      client.write(Buffer.concat([unfinished(1_000_000), Buffer.alloc(more, ' ')]))
      if (more > 0)
        await until(() => upstream.requests.length === 1, 'the request to arrive')
      else await pause(100)
      client.socket[leave]()
      // Ends with the last connection, and not before the gateway has noticed that its caller left.
      await gateway.close()
      expect(upstream.requests.filter(({ complete }) => complete)).toHaveLength(0)
      expect(
        await counted(gateway, 'quotegate_problems_total{type="internal-error"}'),
      ).toBe(0)
      expect(escaped).toEqual([])
    },
  )
})
