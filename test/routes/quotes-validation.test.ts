import { describe, expect, it } from 'vitest'
import {
  ask,
  asking,
  giveQuote,
  quoteBody,
  quotePath,
} from '../support/clients/quotes.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { recordedGateway } from '../support/gateways/between.ts'

const quoting = (settings = {}) =>
  recordedGateway(settings, (_request, response) => giveQuote(response))
const head = 'Host: g\r\nApp-Name: wallet\r\n\r\n'

describe('App-Name', () => {
  it.each([
    [[]],
    [['App-Name', ' ']],
    [['App-Name', '', 'App-Name', '']],
    [['X-App-Name', 'a']],
  ])('is required: a 400 after %j, and the upstream sees nothing', async (headers) => {
    const { gateway, upstream } = await quoting()
    const answer = await asking(gateway.url, '0.1', headers)
    expect(answer.status).toBe(400)
    expect(JSON.parse(answer.body)).toMatchObject({
      type: 'urn:quotegate:problem:app-name-missing',
      header: 'App-Name',
    })
    expect(upstream.requests).toEqual([])
  })

  it('is the same application whether it was sent or supplied by SWAP_APP_NAME, and another one is not', async () => {
    const { gateway, upstream } = await quoting({ SWAP_APP_NAME: 'ours' })
    const ids = []
    for (const headers of [[], ['app-NAME', 'ours'], ['App-Name', 'theirs']])
      ids.push(JSON.parse((await asking(gateway.url, '0.1', headers)).body).id)
    expect(ids[1]).toBe(ids[0])
    expect(ids[2]).not.toBe(ids[0])
    expect(upstream.requests.map(({ headers }) => headers['app-name'])).toEqual([
      'ours',
      'theirs',
    ])
  })
})

// One of each kind: test/quotes/target.test.ts and test/http/decimal.test.ts have the rest.
describe('an amount', () => {
  it.each([
    '',
    '?amount=',
    '?amount=1&%61mount=2',
    '?amount[]=1',
    '?amount=0',
    '?amount=NaN',
    '?amount=%zz',
  ])(
    'in %j is refused with 400 that names it, and the upstream sees nothing; the connection is kept',
    async (query) => {
      const { gateway, upstream } = await quoting()
      const connection = new RawConnection(
        gateway.url,
        `GET ${quotePath}${query} HTTP/1.1\r\n${head}`,
      )
      const answer = await connection.answer()
      expect(answer.status).toBe(400)
      const problem = JSON.parse(answer.body.toString())
      expect(problem).toMatchObject({
        type: 'urn:quotegate:problem:bad-amount',
        parameter: 'amount',
      })
      expect(problem.detail).toContain('amount')
      expect(upstream.requests).toEqual([])
      connection.write(`GET ${quotePath}?amount=1 HTTP/1.1\r\n${head}`)
      expect((await connection.answer()).status).toBe(200)
    },
  )

  it('is the same in every spelling, and in no other number', async () => {
    const { gateway, upstream } = await quoting()
    const bodies: string[] = []
    for (const amount of ['0.1', '0.10', '1e-1', '.1', '%30.1', '0.1000000000000000055'])
      bodies.push((await asking(gateway.url, amount)).body)
    expect(bodies.slice(0, 5)).toEqual(Array(5).fill(bodies[0]))
    expect(bodies[5]).not.toBe(bodies[0])
    expect(upstream.requests.map(({ target }) => target)).toEqual([
      `${quotePath}?amount=0.1`,
      `${quotePath}?amount=0.1000000000000000055`,
    ])
  })
})

// What tells two requests apart: test/property/quote-key.test.ts.
describe('the target', () => {
  const askAll = async (targets: string[]) => {
    const { gateway, upstream } = await quoting()
    for (const target of targets)
      await rawExchange(gateway.url, `GET ${target} HTTP/1.1\r\n${head}`)
    const hosts = upstream.requests.map(({ headers }) => headers.host)
    expect(new Set(hosts)).toEqual(new Set([new URL(upstream.url).host]))
    return upstream.requests.map((request) => request.target)
  }

  it('is sent exactly as written, and its answer is cached for exactly that target', async () => {
    const targets = [
      `${quotePath}?x=%20+y&amount=00.1&&z=%e2%82%ac&amountless=1&q=?/../`,
      `${quotePath}?amount=1&caf%e9=%ff|~^'\`{}"<>`,
      '/v3/pairs/eth_usdc/quotes?amount=1',
      `${quotePath}?amount=1&x=1&x=2`,
      `${quotePath}?amount=1&x=2&x=1`,
    ]
    expect(await askAll([...targets, ...targets])).toEqual(targets)
  })

  it('means the same in absolute form, and with the amount before and after the other parameters', async () => {
    const first = `${quotePath}?amount=1&x=1&y=2`
    const others = [`${quotePath}?x=1&amount=1.0&y=2`, `${quotePath}?x=1&y=2&amount=1e0`]
    expect(await askAll([`http://evil.example${first}`, first, ...others])).toEqual([
      first,
    ])
  })
})

describe('methods', () => {
  it('answers HEAD with the head of a GET, from one upstream GET for both', async () => {
    const { gateway, upstream } = await quoting()
    upstream.answer((_request, response) =>
      giveQuote(response, quoteBody({ more: 'x'.repeat(100) })),
    )
    const head = await ask(gateway.url, { method: 'HEAD' })
    const get = await ask(gateway.url)
    const again = await ask(gateway.url, { method: 'HEAD' })
    expect([head.status, get.status, again.status]).toEqual([200, 200, 200])
    expect([head.body, again.body]).toEqual(['', ''])
    expect(get.body.length).toBeGreaterThan(100)
    for (const { headers: received } of [head, get, again])
      expect(received['content-length']).toBe(String(get.body.length))
    expect(again.headers['cache-status']).toMatch(/^quotegate; hit; ttl=\d+$/)
    expect(upstream.requests.map(({ method }) => method)).toEqual(['GET'])
  })

  it('passes OPTIONS to the upstream, without asking for an amount, and refuses every other method with 405', async () => {
    const { gateway, upstream } = await quoting()
    upstream.answer((_request, response) =>
      response.writeHead(204, { 'X-From': 'upstream' }).end(),
    )
    const options = await ask(gateway.url, {
      method: 'OPTIONS',
      path: quotePath,
      headers: [],
    })
    expect([options.status, options.headers['x-from']]).toEqual([204, 'upstream'])
    for (const method of ['POST', 'PUT', 'DELETE', 'PROPFIND']) {
      const answer = await ask(gateway.url, { method })
      expect([answer.status, answer.headers.allow]).toEqual([405, 'GET, HEAD, OPTIONS'])
    }
    expect(upstream.requests.map(({ method, target }) => [method, target])).toEqual([
      ['OPTIONS', quotePath],
    ])
  })
})
