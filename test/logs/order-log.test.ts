import { expect, test } from 'vitest'
import { act } from '../operations/support.ts'
import { orderStage, termsOf } from '../support/clients/orders.ts'
import { keptLog } from '../support/observing/log-lines.ts'

test('with ACCESS_LOG=orders each decision about an order is one line, without any address', async () => {
  const log = await keptLog('info')
  const { clock, gateway, order, quote } = await orderStage(
    { ACCESS_LOG: 'orders' },
    { logger: log.logger },
  )
  const given = await quote()
  const { toAmount, ...terms } = termsOf(given)
  const headers = ['App-Name: wallet', 'X-Request-Id: id-1']
  const addresses = { fromAddress: '0xsecretfrom', toAddress: '0xsecretto' }
  const send = async (body: object) =>
    (await order({ ...terms, ...addresses, ...body }, { headers })).status
  expect(await send({ toAmount })).toBe(201)
  expect(await send({ pairId: `X${'_'.repeat(5_000)}\u202e\n` })).toBe(201)
  clock.set(given.expiry + 7)
  expect(await send({ toAmount })).toBe(409)
  await act(gateway, 'hold', { reason: 'a', minutes: 1 })
  expect(await send({ toAmount })).toBe(503)
  expect((await order({}, { headers, path: '/v3/orders' })).status).toBe(503)

  expect(log.lines().filter((line) => line.log === 'access')).toEqual([])
  const any = {
    level: 'info',
    time: expect.any(String),
    log: 'orders',
    requestId: 'id-1',
    application: 'wallet',
  }
  const common = { ...any, fromAmount: '0.1' }
  const known = {
    ...common,
    pairId: 'ETH_USDC',
    toAmount: String(toAmount),
    quoteId: given.id,
    rule: 'exact',
  }
  const decided = log.lines().filter((line) => line.log === 'orders')
  expect(decided).toEqual([
    { ...known, decision: 'forwarded-live', msg: 'forwarded-live' },
    expect.objectContaining({ ...common, decision: 'forwarded-unknown', rule: 'none' }),
    { ...known, decision: 'refused-expired', msg: 'refused-expired', lateMs: 7 },
    { ...any, decision: 'held', msg: 'held' },
  ])
  expect(String(decided[1]?.pairId).length).toBeLessThan(1_000)
  expect(log.text()).not.toMatch(/secret/)
})

test('without ACCESS_LOG a refused order is a line that says which quote was over, for how long and by which rule', async () => {
  const log = await keptLog('info')
  const { clock, order, quote } = await orderStage({}, { logger: log.logger })
  const given = await quote()
  clock.set(given.expiry + 1_066)
  const headers = [
    'App-Name: wallet',
    'X-Request-Id: id-1',
    `Quotegate-Quote: ${given.id}`,
  ]
  for (let times = 0; times < 2; times += 1)
    expect((await order(termsOf(given), { headers })).status).toBe(409)

  const refused = log.lines('info').filter((line) => line.requestId === 'id-1')
  expect(refused).toEqual([
    {
      level: 'info',
      time: expect.any(String),
      requestId: 'id-1',
      decision: 'refused-expired',
      rule: 'id',
      pairId: 'ETH_USDC',
      quoteId: given.id,
      lateMs: 1_066,
      msg: 'a float order was refused and not sent: The order names a quote. The quote is expired.',
    },
  ])
})
