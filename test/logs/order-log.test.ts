import { expect, test } from 'vitest'
import { orderStage, termsOf } from '../support/clients/orders.ts'
import { keptLog } from '../support/observing/log-lines.ts'

test('with ACCESS_LOG=orders each decision about an order is one line, without any address', async () => {
  const log = await keptLog('info')
  const { clock, order, quote } = await orderStage(
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

  expect(log.lines().filter((line) => line.log === 'access')).toEqual([])
  const common = {
    level: 'info',
    time: expect.any(String),
    log: 'orders',
    requestId: 'id-1',
    application: 'wallet',
    fromAmount: '0.1',
  }
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
  ])
  expect(String(decided[1]?.pairId).length).toBeLessThan(1_000)
  expect(log.text()).not.toMatch(/secret/)
})
