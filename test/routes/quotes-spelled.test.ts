import { describe, expect, it } from 'vitest'
import { orderStage, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { ask, counted, giveQuote } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { recordedGateway } from '../support/gateways/between.ts'

// Upstream routers may fold each of these to the path of a quote.
const spelled = [
  '/v3/pairs/DAI_USDC/quotes/',
  '/v3/PAIRS/DAI_USDC/QUOTES',
  '/v3//pairs/DAI_USDC//quotes//',
  '/v3/pairs/DAI%5FUSDC/quotes',
  '/v3/pairs/%44AI_USDC/%71uotes',
  '/v3/pairs/DAI_USDC/quotes;jsessionid=1',
  '/v3/pairs%2FDAI_USDC%2Fquotes',
]

const gatewayOf = (settings = {}) =>
  recordedGateway(settings, (_request, response) => giveQuote(response))

describe('a path that upstream routers may fold to that of a quote', () => {
  it.each(spelled)(
    '%s is sent as received, with our own headers, and cached',
    async (path) => {
      const { upstream, gateway } = await gatewayOf()
      const headers = ['App-Name', 'a', 'Accept', 'text/html']
      const target = `${path}?b=%20&amount=0.10`
      const first = await ask(gateway.url, { path: target, headers })
      const hit = await ask(gateway.url, { path: `${path}?b=%20&amount=1e-1`, headers })
      const head = await ask(gateway.url, { path: target, method: 'HEAD', headers })
      expect(first.headers['cache-status']).toMatch(/^quotegate; fwd=uri-miss; stored/)
      for (const answer of [hit, head])
        expect(answer.headers['cache-status']).toMatch(/^quotegate; hit/)
      expect([hit.body, head.body]).toEqual([first.body, ''])
      expect(upstream.requests.map(({ target: sent }) => sent)).toEqual([target])
      expect(upstream.requests[0]?.headers.accept).toBe('application/json')
    },
  )

  it.each(spelled)(
    '%s is validated, and counts as the pair that it means',
    async (path) => {
      const { upstream, gateway } = await gatewayOf({ METRICS_PAIRS: 'DAI_USDC' })
      const raw = (method: string, target: string, ...lines: string[]) =>
        rawExchange(
          gateway.url,
          [`${method} ${target} HTTP/1.1`, 'Host: g', ...lines, '', ''].join('\r\n'),
        )
      expectProblem(await raw('GET', `${path}?amount=1`), 400, 'app-name-missing')
      expectProblem(await raw('GET', path, 'App-Name: a'), 400, 'bad-amount')
      const refused = await raw(
        'POST',
        `${path}?amount=1`,
        'App-Name: a',
        'Content-Length: 0',
      )
      expectProblem(refused, 405, 'method-not-allowed')
      expect(upstream.requests).toHaveLength(0)
      await raw('OPTIONS', `${path}?amount=1`, 'App-Name: a')
      expect(
        upstream.requests.map(({ method, target }) => `${method} ${target}`),
      ).toEqual([`OPTIONS ${path}?amount=1`])
      await ask(gateway.url, { path: `${path}?amount=1` })
      expect(await counted(gateway, 'quotegate_quote_calls_total{pair="DAI_USDC"}')).toBe(
        1,
      )
    },
  )

  it.each(spelled)(
    '%s is noted for the pair that it means: used, over, and with an answer that cannot be read',
    async (path) => {
      const { arrived, clock, order, provider, quote } = await orderStage()
      provider.quote = { pairId: 'DAI_USDC' }
      const asked = () => quote('0.1', { path: `${path}?amount=0.1` })
      const used = await asked()
      expect((await asked()).id).toBe(used.id)
      expect((await order(termsOf(used))).status).toBe(201)
      const given = await asked()
      expect(given.id).not.toBe(used.id)
      clock.set(given.expiry)
      expectProblem(await order(termsOf(given)), 409, 'quote-expired')
      provider.quote = { pairId: 'DAI_USDC', expiry: undefined }
      await asked()
      expect((await order(termsOf(given))).status).toBe(201)
      expect(arrived()).toHaveLength(2)
    },
  )
})
