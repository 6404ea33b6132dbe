import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { floatPath, orderStage, post, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { deferred } from '../support/clients/quotes.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { until } from '../support/gateways/between.ts'

// An order whose answer never came may have been carried out. Its quote was handed out to the next user, and its own
// answer said to look up what became of it, but not where.

const plainPath = '/v3/orders'
const lookup = '/v3/orders?toAddress=0xt'
const cut = (status: number) => (response: ServerResponse) => {
  response.writeHead(status, { 'Content-Length': 100 })
  response.write('{"id":', () => response.destroy())
}
const raw = (answer: string) => (response: ServerResponse) => response.socket?.end(answer)

type Fail = (response: ServerResponse) => unknown
const unknown: [what: string, status: number, slug: string, fail: Fail][] = [
  ['is reset', 502, 'upstream-reset', (response) => response.socket?.resetAndDestroy()],
  ['is closed', 502, 'upstream-reset', (response) => response.socket?.end()],
  ['never comes', 504, 'upstream-timeout', () => {}],
  ['is not HTTP', 502, 'upstream-invalid', raw('garbage\r\n\r\n')],
  [
    'is cut within its head',
    502,
    'upstream-reset',
    raw('HTTP/1.1 201 Created\r\nContent-Length: 5\r\n'),
  ],
]

/** A provider that fails each order, and whether the quote is still in the cache. */
async function failing(fail: Fail, settings: Record<string, string | undefined> = {}) {
  const stage = await orderStage(settings)
  stage.provider.takeOrder = (_request, response) => void fail(response)
  const given = await stage.quote()
  return { ...stage, given, isKept: async () => (await stage.quote()).id === given.id }
}

describe('an order whose answer', () => {
  it.each(unknown)(
    '%s has used its quote, and the answer says where to look it up',
    async (_what, status, slug, fail) => {
      const settings = status === 504 ? { UPSTREAM_HEADERS_TIMEOUT_MS: '500' } : {}
      const { order, given, isKept } = await failing(fail, settings)
      for (const path of [floatPath, plainPath]) {
        const problem = expectProblem(await order(termsOf(given), { path }), status, slug)
        expect([problem.retryable, problem.lookup, problem.accepted]).toEqual([
          false,
          lookup,
          undefined,
        ])
        expect(String(problem.detail).match(/look it up/gi)).toHaveLength(1)
        expect(problem.detail).toContain(
          'look it up at `lookup` before you send it again',
        )
        if (path === floatPath) expect(await isKept()).toBe(false)
      }
    },
  )

  it.each([502, 504])(
    'is a %d of the provider has used its quote: an edge gave up on it',
    async (status) => {
      const { order, given, isKept } = await failing((response) =>
        response.writeHead(status).end('edge'),
      )
      expect((await order(termsOf(given))).body.toString()).toBe('edge')
      expect(await isKept()).toBe(false)
    },
  )

  it.each<[what: string, status: number, slug: string, fail: Fail]>([
    ['breaks off', 502, 'upstream-invalid', cut(201)],
    [
      'stalls',
      504,
      'upstream-timeout',
      (response) => response.writeHead(201, { 'Content-Length': 9 }).write('{'),
    ],
    [
      'cannot be passed on',
      502,
      'upstream-invalid',
      raw('HTTP/1.1 201 A\x01B\r\nContent-Length: 2\r\n\r\n{}'),
    ],
  ])(
    '%s after a 2xx head says that the order was accepted',
    async (_what, status, slug, fail) => {
      const { order, given, isKept } = await failing(
        fail,
        status === 504 ? { bodyTimeoutMs: '500' } : {},
      )
      const problem = expectProblem(await order(termsOf(given)), status, slug)
      expect(problem).toMatchObject({ retryable: false, accepted: true, lookup })
      expect(problem.detail).toMatch(/accepted.*201/)
      expect(await isKept()).toBe(false)
    },
  )

  it('breaks off after a head that refused it has not used its quote', async () => {
    const { order, given, isKept } = await failing(cut(400))
    const problem = expectProblem(await order(termsOf(given)), 502, 'upstream-invalid')
    expect([problem.lookup, problem.accepted]).toEqual([lookup, undefined])
    expect(await isKept()).toBe(true)
  })

  it('never comes and whose caller has left has used its quote', async () => {
    const taken = deferred<ServerResponse>()
    const { gateway, given, isKept } = await failing(taken.resolve)
    const client = new RawConnection(gateway.url)
    client.write(post(JSON.stringify(termsOf(given))))
    const response = await taken.promise
    client.socket.resetAndDestroy()
    response.socket?.resetAndDestroy()
    await until(() => response.socket === null || response.socket.destroyed, 'the reset')
    expect(await isKept()).toBe(false)
  })
})

it('a second order for a quote that may have been used is sent while the quote is live', async () => {
  const { clock, order, given, provider } = await failing((response) =>
    response.destroy(),
  )
  expect((await order(termsOf(given))).status).toBe(502)
  provider.takeOrder = (_request, response) => response.writeHead(201).end()
  expect((await order(termsOf(given))).status).toBe(201)
  clock.set(given.expiry)
  expectProblem(await order(termsOf(given)), 409, 'quote-expired')
})

it.each([floatPath, plainPath])(
  'an order to %s that was not sent has no lookup, and has not used its quote',
  async (path) => {
    const { order, quote, upstream } = await orderStage({ retries: 0 })
    const given = await quote()
    await upstream.close()
    const problem = expectProblem(
      await order(termsOf(given), { path }),
      502,
      'upstream-unreachable',
    )
    expect([problem.retryable, 'lookup' in problem, 'accepted' in problem]).toEqual([
      true,
      false,
      false,
    ])
    expect((await quote()).id).toBe(given.id)
  },
)

describe('the lookup of an order', () => {
  it.each(['0xt', 'a b+c&d=e#f?g/h%41', 'caf\u00e9 \ud83d\ude80 "\\', "!'()*;,:@$~"])(
    'asks the provider for its very address: %s',
    async (toAddress) => {
      const { order, given, upstream, gateway } = await failing((response) =>
        response.destroy(),
      )
      const answer = await order({ ...termsOf(given), toAddress })
      const path = String(expectProblem(answer, 502, 'upstream-reset').lookup)
      expect(path).toMatch(/^\/v3\/orders\?toAddress=[A-Za-z0-9%._~!'()*-]+$/)
      await rawExchange(gateway.url, `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`)
      const received = new URL(upstream.requests.at(-1)?.target ?? '', 'http://provider')
      expect(received.pathname).toBe('/v3/orders')
      expect([...received.searchParams]).toEqual([['toAddress', toAddress]])
    },
  )

  const both = [floatPath, plainPath]
  it.each<[what: string, body: string, paths: string[], headers?: string[]]>([
    ['it has no address', '{}', both],
    ['the address is empty', '{"toAddress":""}', both],
    ['the address is not a string', '{"toAddress":12}', both],
    ['the address is an object', '{"toAddress":{"value":"0xt"}}', both],
    [
      'the address is longer than any',
      JSON.stringify({ toAddress: 'a'.repeat(3_000) }),
      both,
    ],
    ['the address is half of a surrogate pair', '{"toAddress":"0x\\ud800"}', both],
    [
      'the body of a plain order is coded',
      '{"toAddress":"0xt"}',
      [plainPath],
      ['Content-Encoding: gzip'],
    ],
    ['the body of a plain order is malformed', '{"toAddress":"0xt"', [plainPath]],
    [
      'the body of a plain order is too long',
      JSON.stringify({ toAddress: '0xt' }).padEnd(65_537),
      [plainPath],
    ],
  ])('is left out where %s', async (_what, body, paths, headers = []) => {
    const { order } = await failing((response) => response.destroy())
    for (const path of paths) {
      const answer = await order(body, {
        path,
        headers: ['App-Name: wallet', ...headers],
      })
      const problem = expectProblem(answer, 502, 'upstream-reset')
      expect([problem.lookup, problem.retryable]).toEqual([undefined, false])
      expect(problem.detail).not.toContain('lookup')
    }
  })
})
