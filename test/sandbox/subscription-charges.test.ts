import { expect, test } from 'vitest'
import type { Sandbox } from '../../src/sandbox/sandbox.ts'
import { ManualClock, pay, paySigned, startedSandbox, startMs } from './support.ts'

async function stage(plan: object = {}) {
  const clock = new ManualClock()
  const sandbox = await startedSandbox({ clock, quoteLifetimeMs: 30_000 })
  const { body } = await pay(sandbox, 'POST', '/subscriptions', plan)
  const path = `/subscriptions/${body.id}`
  const quote = () => pay(sandbox, 'POST', `${path}/charge-quote`)
  const charge = (charge_nonce: unknown, amount: unknown = '9990000') =>
    paySigned(sandbox, `${path}/charge`, { amount, charge_nonce })
  return { clock, sandbox, path, quote, charge }
}

const ledger = async (sandbox: Sandbox, path: string) =>
  (await pay(sandbox, 'GET', `${path}/charges`)).body.data

test('a charge is quoted in the published form, signed, and in the ledger', async () => {
  const { sandbox, path, quote, charge } = await stage()
  const expires_at = new Date(startMs + 30_000).toISOString().replace('.000Z', 'Z')
  const quoted = await quote()
  expect([quoted.status, quoted.body]).toEqual([200, { amount: '9990000', expires_at }])
  const { status, body } = await charge('1')
  expect(status).toBe(201)
  expect(body).toMatchObject({
    status: 'succeeded',
    amount: '9990000',
    charge_nonce: '1',
    failure_reason: null,
  })
  expect(await ledger(sandbox, path)).toEqual([body])
})

test('the amount of a quote is that of its subscription, if it has one in the smallest unit', async () => {
  expect((await (await stage({ amount: '5000000' })).quote()).body.amount).toBe('5000000')
  expect((await (await stage({ amount: '10.00' })).quote()).body.amount).toBe('9990000')
})

test('a charge is good until its quote expires, and refused from then on until there is another', async () => {
  const { clock, quote, charge, sandbox, path } = await stage()
  await quote()
  clock.advance(29_999)
  expect((await charge('1')).status).toBe(201)
  clock.advance(1)
  const late = await charge('2')
  expect([late.status, late.body.error.type]).toEqual([422, 'quote_expired'])
  await quote()
  expect((await charge('2')).status).toBe(201)
  const reasons = (await ledger(sandbox, path)).map((one: { failure_reason: string }) => one.failure_reason)
  expect(reasons).toEqual([null, 'quote_expired', null])
})

test('a charge without a quote, or of another amount, is refused', async () => {
  const { quote, charge } = await stage()
  expect((await charge('1')).body.error.type).toBe('amount_not_quoted')
  await quote()
  expect((await charge('1', '9990001')).body.error.type).toBe('amount_not_quoted')
})

test('a repeated nonce is refused, however it is written and however many charges come at once', async () => {
  const { quote, charge, sandbox, path } = await stage()
  await quote()
  const at = await Promise.all(['7', 7, '7', 7].map((nonce) => charge(nonce)))
  expect(at.map(({ status }) => status).sort()).toEqual([201, 422, 422, 422])
  expect((await charge('7')).body.error).toEqual({
    type: 'charge_nonce_used',
    message: 'the contract reverts',
  })
  const failed = (await ledger(sandbox, path)).filter((one: { status: string }) => one.status === 'failed')
  expect(failed).toHaveLength(4)
  expect(failed[0].failure_reason).toBe('charge_nonce_used')
  expect((await charge(8)).status).toBe(201)
  expect((await charge('8')).status).toBe(422)
})

test('nonces are those of one subscription', async () => {
  const { sandbox, quote, charge } = await stage()
  await quote()
  await charge('1')
  const { body: other } = await pay(sandbox, 'POST', '/subscriptions', {})
  await pay(sandbox, 'POST', `/subscriptions/${other.id}/charge-quote`)
  const body = { amount: '9990000', charge_nonce: '1' }
  expect((await paySigned(sandbox, `/subscriptions/${other.id}/charge`, body)).status).toBe(201)
  expect(await ledger(sandbox, `/subscriptions/${other.id}`)).toHaveLength(1)
})

test.each([
  ['no nonce', { amount: '1' }],
  ['a nonce that JSON numbers cannot hold', '{"amount":"1","charge_nonce":9007199254740993}'],
  ['an amount that is a number', { amount: 1, charge_nonce: '1' }],
  ['no body', undefined],
])('a charge with %s is a 400, and not in the ledger', async (_what, body) => {
  const { sandbox, path, quote } = await stage()
  await quote()
  expect((await paySigned(sandbox, `${path}/charge`, body)).status).toBe(400)
  expect(await ledger(sandbox, path)).toEqual([])
})

test('a charge without a signature is refused', async () => {
  const { sandbox, path, quote } = await stage()
  await quote()
  const body = { amount: '9990000', charge_nonce: '1' }
  expect((await pay(sandbox, 'POST', `${path}/charge`, body)).body.error.type).toBe('invalid_signature')
})

test('a plan in tokens is charged without quote, body and signature', async () => {
  const { sandbox, path, quote, charge } = await stage({ token: '0xtoken' })
  expect((await quote()).status).toBe(409)
  expect((await charge('1')).status).toBe(400)
  const { status, body } = await pay(sandbox, 'POST', `${path}/charge`)
  expect([status, body.status, body.failure_reason]).toEqual([201, 'succeeded', null])
  expect(await ledger(sandbox, path)).toEqual([body])
})

test('only an active subscription is quoted and charged', async () => {
  const { sandbox, path, quote, charge } = await stage()
  await quote()
  await pay(sandbox, 'POST', `${path}/cancel`)
  expect((await quote()).status).toBe(409)
  expect((await charge('1')).status).toBe(409)
})
