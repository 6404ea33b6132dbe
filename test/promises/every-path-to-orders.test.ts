import { describe, expect, it } from 'vitest'
import { orderStage, post, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'

// One of each kind: test/routes/area.test.ts makes the others.
const paths = `
  /v3/orders/float  /v3/orders/float/  /v3//orders/float  /v3/orders//float//  /v3/orders/Float
  /v3/%6F%72ders/%66%6c%6F%61%74%2F  /v3/orders;a=b/float  /v3/orders/Float%2Exml/  /v3/orders/Float/%00/1.png
  /v3/orders/float.v1  /v3/orders/float.  /v3/orders/float%20.json  /v3/orders%5cfloat  /v3/orders/float+
  /v3/orders/%e3%80%80float%ef%bb%bf  /v3/orders/float%3Fx=1  /v3/orders/float/%23/x  /v3/orders/float?x=1
  /v3/orders/float/?pairId=OTHER&%zz`
// The last four: a router that drops blanks sees a dot segment.
const dotSegments = `
  /v3/orders/./float  /v3/x/../orders/float  /v3/orders/%2e/float  /v3/orders\\float
  /v3/orders/.%20/float  /v3/x/%2E%2e%09/orders/float  /v3/orders/%C2%A0.%2Ffloat  /v3/x/.%00.;a/orders/float`
const elsewhere =
  '/V3/orders/float  //v3/orders/float  /%763/orders/float  /x/v3/orders/float'
const each = (text: string) => text.trim().split(/\s+/)

async function givenAndOver() {
  const stage = await orderStage()
  const given = await stage.quote()
  stage.clock.set(given.expiry)
  return { ...stage, given }
}

describe('every path that a router may take for the orders is judged, and sent as it was received:', () => {
  it.each([
    ...each(paths).map((path) => [path, path]),
    // The absolute form chooses no host.
    ['http://evil.example/v3/orders/float?x', '/v3/orders/float?x'],
  ])('%s', async (path = '', sentTo) => {
    const { arrived, clock, order, quote } = await orderStage()
    const given = await quote()
    expect((await order(termsOf(given), { path })).status).toBe(201)
    clock.set(given.expiry)
    expectProblem(await order(termsOf(given), { path }), 409, 'quote-expired')
    expect(arrived().map(({ target }) => target)).toEqual([sentTo])
  })

  it.each([
    ...each(elsewhere).map((path) => [path, 404, 'not-found'] as const),
    ...each(dotSegments).map((path) => [path, 400, 'bad-target'] as const),
  ])('%s reaches no upstream: %d', async (path, status, slug) => {
    const { arrived, order } = await orderStage()
    expectProblem(await order({}, { path }), status, slug)
    expect(arrived()).toHaveLength(0)
  })

  it('a header that names another method or target changes nothing', async () => {
    const { arrived, given, order } = await givenAndOver()
    for (const name of ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override']) {
      const others = ['X-Original-URL: /v3/pairs', 'X-Rewrite-URL: /v3/pairs']
      const headers = ['App-Name: wallet', `${name}: PUT`, ...others]
      expectProblem(await order(termsOf(given), { headers }), 409, 'quote-expired')
    }
    expect(arrived()).toHaveLength(0)
  })

  it('HTTP/1.0 is judged', async () => {
    const { arrived, gateway, given } = await givenAndOver()
    const request = post(JSON.stringify(termsOf(given))).toString()
    const answer = await rawExchange(gateway.url, request.replace('HTTP/1.1', 'HTTP/1.0'))
    expectProblem(answer, 409, 'quote-expired')
    expect(arrived()).toHaveLength(0)
  })

  it('every order of several in one write is judged, in turn', async () => {
    const { arrived, gateway, given } = await givenAndOver()
    const late = post(JSON.stringify(termsOf(given)))
    const unknown = post('{"pairId":"ETH_USDC","fromAmount":7}')
    const client = new RawConnection(gateway.url)
    client.write(Buffer.concat([late, unknown, late, post('{'), unknown]))
    const statuses: number[] = []
    for (let turn = 0; turn < 5; turn += 1) statuses.push((await client.answer()).status)
    expect(statuses).toEqual([409, 201, 409, 400, 201])
    expect(arrived()).toHaveLength(2)
  })

  it('a quote and the order for it in one write are judged in that order', async () => {
    const { gateway } = await orderStage({ ORDER_UNKNOWN_QUOTE: 'refuse' })
    const client = new RawConnection(gateway.url)
    const get =
      'GET /v3/pairs/ETH_USDC/quotes?amount=0.1 HTTP/1.1\r\nHost: g\r\nApp-Name: wallet\r\n\r\n'
    client.write(
      Buffer.concat([Buffer.from(get), post('{"pairId":"ETH_USDC","fromAmount":0.1}')]),
    )
    expect([(await client.answer()).status, (await client.answer()).status]).toEqual([
      200, 201,
    ])
  })

  it.each(['GET', 'PUT', 'DELETE', 'OPTIONS'])(
    '%s is not an order and passes',
    async (method) => {
      const { gateway, provider, upstream } = await orderStage()
      provider.takeOrder = (_request, response) => response.writeHead(405).end()
      const request = post('{"a": 1 ', { method })
      expect((await rawExchange(gateway.url, request)).status).toBe(
        method === 'GET' ? 200 : 405,
      )
      expect(upstream.requests.map(({ body }) => body.toString())).toEqual(['{"a": 1 '])
    },
  )
})
