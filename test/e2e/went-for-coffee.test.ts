import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { everyWay, setStage } from './support.ts'

/**
 * Story 2: the user who went for coffee confirms after the price has expired. The backend learns so at once, shows
 * it, asks again at `requote`, and orders. No late order reaches the provider.
 */
test.each(everyWay)(
  'through %s, the user who went for coffee learns that the price has expired, and takes the new one',
  async (_way, open) => {
    const quoteLifetimeMs = 1_000
    const { sandbox, gateway } = await setStage({}, { sandbox: { quoteLifetimeMs } })
    const ask = open(gateway)
    const quoteAt = (target: string) => ask('get', target).set('App-Name', 'wallet')
    const orderFor = ({
      pairId,
      fromAmount,
      toAmount,
    }: Record<string, Record<string, string>>) =>
      ask('post', '/v3/orders/float')
        .set({ 'App-Name': 'wallet', 'Content-Type': 'application/json' })
        .send(
          `{"pairId":"${pairId}","fromAmount":${fromAmount?.value},"fromAddress":"0xf","toAddress":"0xt","toAmount":${toAmount?.value}}`,
        )
    const quote = await quoteAt('/v3/pairs/ETH_USDC/quotes?amount=0.10')
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

    sandbox.faults({ quoteLifetimeMs: 60_000 })
    const fresh = await quoteAt(late.body.requote)
    expect(fresh.status).toBe(200)
    expect(fresh.body.id).not.toBe(quote.body.id)
    const placed = await orderFor(fresh.body)
    expect(placed.status).toBe(201)
    expect(placed.body).toMatchObject({ rateId: fresh.body.id, status: 'awaiting' })
    expect(sandbox.requests.map(({ method }) => method)).toEqual(['GET', 'GET', 'POST'])
  },
)
