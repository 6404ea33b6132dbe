import { describe, expect, test } from 'vitest'
import type { Sandbox, SandboxFaults } from '../../src/sandbox/sandbox.ts'
import { ask, ManualClock, startedSandbox, startMs } from './support.ts'

const terms = { pairId: 'ETH_USDC', fromAmount: 1, toAddress: '0xto' }
const isoAfter = (ms: number) => new Date(startMs + ms).toISOString()

async function placed(faults: Partial<SandboxFaults> = {}) {
  const clock = new ManualClock()
  const sandbox = await startedSandbox({ clock, faults })
  const id = await place(sandbox)
  const state = async () => (await ask(sandbox, 'GET', `/v3/orders/${id}`)).body
  const note = (body: unknown, ofOrder = id) => ask(sandbox, 'PATCH', `/v3/orders/${ofOrder}`, { body })
  return { clock, sandbox, state, note }
}

async function place(sandbox: Sandbox): Promise<string> {
  const { status, body } = await ask(sandbox, 'POST', '/v3/orders', { body: terms })
  expect(status).toBe(201)
  return body.id
}

describe('an order', () => {
  test('is awaiting, then inProgress, then complete, five seconds each, whatever the clock offset does', async () => {
    const { clock, sandbox, state } = await placed()
    sandbox.faults({ clockOffsetMs: -60_000 })
    const seen: string[] = []
    for (const stepMs of [0, 4_999, 1, 4_999, 1, 3_600_000]) {
      clock.advance(stepMs)
      const { status, updatedAt } = await state()
      seen.push(`${status} ${updatedAt}`)
    }
    expect(seen).toEqual([
      `awaiting ${isoAfter(0)}`,
      `awaiting ${isoAfter(0)}`,
      `inProgress ${isoAfter(5_000)}`,
      `inProgress ${isoAfter(5_000)}`,
      `complete ${isoAfter(10_000)}`,
      `complete ${isoAfter(10_000)}`,
    ])
    expect(await state()).toMatchObject({ toTransactionId: expect.stringMatching(/^sandbox-/) })
  })

  test('is in progress as soon as its transaction is noted', async () => {
    const { clock, state, note } = await placed()
    clock.advance(1_000)
    const { status, body } = await note({ fromTransactionId: '0xabc' })
    expect(status).toBe(200)
    expect(body).toMatchObject({
      status: 'inProgress',
      fromTransactionId: '0xabc',
      updatedAt: isoAfter(1_000),
    })
    clock.advance(5_000)
    expect(await state()).toMatchObject({ status: 'complete', updatedAt: isoAfter(6_000) })
  })

  test.each(['failed', 'refunded'] as const)('ends as %s if it was placed so', async (orderOutcome) => {
    const { clock, sandbox, state } = await placed({ orderOutcome })
    sandbox.faults({ orderOutcome: 'complete' })
    clock.advance(9_999)
    expect((await state()).status).toBe('inProgress')
    clock.advance(1)
    const { status, message, toTransactionId } = await state()
    expect(status).toBe(orderOutcome)
    expect(message).toContain('sandbox')
    expect(toTransactionId).toBeUndefined()
  })

  test('expires without a deposit', async () => {
    const { clock, state, note } = await placed({ orderOutcome: 'expired' })
    clock.advance(9_999)
    expect((await state()).status).toBe('awaiting')
    clock.advance(1)
    expect(await state()).toMatchObject({ status: 'expired', updatedAt: isoAfter(10_000) })
    expect((await note({ transactionId: '0xlate' })).body).toMatchObject({ status: 'expired' })
  })

  test('that would expire is complete if its deposit is noted in time', async () => {
    const { clock, state, note } = await placed({ orderOutcome: 'expired' })
    clock.advance(9_000)
    expect((await note({ transactionId: '0xabc' })).body.status).toBe('inProgress')
    clock.advance(5_000)
    expect((await state()).status).toBe('complete')
  })
})

describe('PATCH of an order', () => {
  test('notes a transaction under either name', async () => {
    const { sandbox, note } = await placed()
    expect((await note({ fromTransactionId: '0x1' })).body.fromTransactionId).toBe('0x1')
    const other = await place(sandbox)
    expect((await note({ transactionId: '0x2' }, other)).body.fromTransactionId).toBe('0x2')
  })

  test('is a 412 for a transaction that is known, of this order or of another', async () => {
    const { sandbox, state, note } = await placed()
    await note({ transactionId: '0x1' })
    const other = await place(sandbox)
    for (const answer of [
      await note({ transactionId: '0x1' }),
      await note({ fromTransactionId: '0x2' }),
      await note({ transactionId: '0x1' }, other),
    ]) {
      expect([answer.status, answer.body.code]).toEqual([412, 'PRECONDITION_FAILED'])
    }
    expect((await state()).fromTransactionId).toBe('0x1')
    expect((await note({ transactionId: '0x2' }, other)).status).toBe(200)
  })

  test.each([{}, { transactionId: '' }, { transactionId: 1 }, [], '{'])('refuses %j', async (body) => {
    const { note } = await placed()
    const { status } = await note(body)
    expect(status).toBe(400)
  })
})
