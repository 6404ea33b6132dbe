import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { everyWay, setStage } from './support.ts'

/**
 * Story 2: the user who went for coffee confirms after the price has expired. The backend learns so at once, shows
 * it, asks again at `requote`, and orders. No late order reaches the provider.
 */
describe.each(everyWay)('the user who went for coffee, through %s,', (_way, open) => {
  const quoteLifetimeMs = 1_000

  async function stage() {
    const { sandbox, gateway } = await setStage({}, { sandbox: { quoteLifetimeMs } })
    const ask = open(gateway)
    const orderFor = ({ pairId, fromAmount, toAmount }: Quote) =>
      ask('post', '/v3/orders/float')
        .set({ 'App-Name': 'wallet', 'Content-Type': 'application/json' })
        .send(
          `{"pairId":"${pairId}","fromAmount":${fromAmount.value},"fromAddress":"0xf","toAddress":"0xt","toAmount":${toAmount.value}}`,
        )
    return { sandbox, ask, orderFor }
  }

  test('learns that the price has expired, takes the new one, and orders', async () => {
    const { sandbox, ask, orderFor } = await stage()
    const quote = await ask('get', '/v3/pairs/ETH_USDC/quotes?amount=0.10').set('App-Name', 'wallet')
    expect(quote.status).toBe(200)
    await sleep(quoteLifetimeMs)

    const late = await orderFor(quote.body)
    expect(late.status).toBe(409)
    expect(late.body).toMatchObject({
      type: 'urn:quotegate:problem:quote-expired',
      quoteId: quote.body.id,
      expiry: quote.body.expiry,
      retryable: false,
    })
    expect(late.body.expiredForMs).toBeGreaterThanOrEqual(0)
    expect(sandbox.requests.map(({ method }) => method)).toEqual(['GET'])

    const fresh = await ask('get', late.body.requote).set('App-Name', 'wallet')
    expect(fresh.status).toBe(200)
    expect(fresh.body.id).not.toBe(quote.body.id)
    const placed = await orderFor(fresh.body)
    expect(placed.status).toBe(201)
    expect(placed.body).toMatchObject({ rateId: fresh.body.id, status: 'awaiting' })
    expect(sandbox.requests.map(({ method }) => method)).toEqual(['GET', 'GET', 'POST'])
  })

  test('and is back in time, orders', async () => {
    const { sandbox, ask, orderFor } = await stage()
    sandbox.faults({ quoteLifetimeMs: 60_000 })
    const quote = await ask('get', '/v3/pairs/ETH_USDC/quotes?amount=0.1').set('App-Name', 'wallet')
    await sleep(100)
    expect((await orderFor(quote.body)).status).toBe(201)
  })
})

interface Quote {
  pairId: string
  fromAmount: { value: string }
  toAmount: { value: string }
}
