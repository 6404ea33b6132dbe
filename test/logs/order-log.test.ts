import { afterEach, expect, test, vi } from 'vitest'
import { ask, giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { killPrograms } from '../support/gateways/program.ts'
import { startLogged } from './support.ts'

afterEach(killPrograms)

const terms = { pairId: 'ETH_USDC', fromAmount: 0.1, fromAddress: '0xsecretfrom', toAddress: '0xsecretto' }

async function stage(settings: Record<string, string>, lifeMs: number) {
  const { url } = await recordingUpstream((request, response) => {
    if (request.method === 'GET')
      giveQuote(response, quoteBody({ id: 'quote-7', expiry: Date.now() + lifeMs }))
    else response.writeHead(201).end('{"id":"order-1"}')
  })
  const gateway = await startLogged({ SWAP_BASE_URL: url, ...settings })
  const order = (body: object) =>
    ask(gateway.url, {
      path: '/v3/orders/float',
      method: 'POST',
      body: JSON.stringify(body),
      headers: ['App-Name', 'wallet', 'X-Request-Id', 'id-1'],
    })
  return { gateway, order }
}

test('with ACCESS_LOG=orders each decision about an order is one line, without any address', async () => {
  const { gateway, order } = await stage({ ACCESS_LOG: 'orders' }, 1_500)
  await ask(gateway.url)
  expect((await order({ ...terms, toAmount: '289.645' })).status).toBe(201)
  expect((await order({ ...terms, pairId: `X${'_'.repeat(5_000)}\u202e\n` })).status).toBe(201)
  await vi.waitFor(async () => expect((await order(terms)).status).toBe(409), {
    timeout: 10_000,
    interval: 100,
  })

  expect(gateway.lines('access')).toEqual([])
  const decided = () => gateway.lines('orders')
  const lastLine = () => decided().at(-1)
  await vi.waitFor(() => expect(lastLine()?.decision).toBe('refused-expired'))
  const common = {
    level: 'info',
    time: expect.any(String),
    log: 'orders',
    requestId: 'id-1',
    application: 'wallet',
    fromAmount: '0.1',
  }
  expect(decided()[0]).toEqual({
    ...common,
    pairId: 'ETH_USDC',
    toAmount: '289.645',
    quoteId: 'quote-7',
    decision: 'forwarded-live',
    rule: 'exact',
    msg: 'forwarded-live',
  })
  expect(decided()[1]).toMatchObject({ decision: 'forwarded-unknown', rule: 'none' })
  expect(String(decided()[1]?.pairId).length).toBeLessThan(1_000)
  expect(lastLine()).toEqual({
    ...common,
    pairId: 'ETH_USDC',
    quoteId: 'quote-7',
    decision: 'refused-expired',
    rule: 'none',
    lateMs: expect.any(Number),
    msg: 'refused-expired',
  })
  const text = gateway.text()
  expect(text).not.toContain('secretto')
  expect(text).not.toContain('secretfrom')
  expect(text.split('\n').filter((line) => line.includes('"log":"orders"'))).toHaveLength(decided().length)
})

test('without ACCESS_LOG an order that is sent is not logged', async () => {
  const { gateway, order } = await stage({}, 30_000)
  expect((await order(terms)).status).toBe(201)
  expect((await gateway.stopped()).map(({ msg }) => msg)).toEqual([
    'quotegate is listening',
    expect.stringMatching(/^stopping/),
    'stopped',
  ])
})
