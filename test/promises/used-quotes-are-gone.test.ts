import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { orderStage, termsOf } from '../support/clients/orders.ts'
import { deferred } from '../support/clients/quotes.ts'

const isHit = ({ cacheStatus }: { cacheStatus: string }) => /; hit;/.test(cacheStatus)

describe('a quote that an accepted order used is served no more: it', () => {
  it.each([200, 201, 202, 204, 299])('is not served again after a %d', async (status) => {
    const { order, provider, quote } = await orderStage()
    provider.takeOrder = (_request, response) => response.writeHead(status).end()
    const [given, byId, another] = [
      await quote('0.1'),
      await quote('0.2'),
      await quote('0.3'),
    ]
    expect((await quote('0.1')).id).toBe(given.id)
    expect((await order(termsOf(given))).status).toBe(status)
    await order({ quoteId: byId.id })
    const next = await quote('0.1')
    expect([next.id === given.id, isHit(next)]).toEqual([false, false])
    expect((await quote('0.1')).id).toBe(next.id)
    expect((await quote('0.2')).id).not.toBe(byId.id)
    expect((await quote('0.3')).id).toBe(another.id)
  })

  it.each([302, 400, 404, 409, 422, 500, 503])(
    'is served again after a %d',
    async (status) => {
      const { order, provider, quote } = await orderStage()
      provider.takeOrder = (_request, response) => response.writeHead(status).end()
      const given = await quote()
      expect((await order(termsOf(given))).status).toBe(status)
      const next = await quote()
      expect([next.id, isHit(next)]).toEqual([given.id, true])
    },
  )

  it('is, of several with equal terms, its user’s own, and else the one that expires last', async () => {
    const { clock, order, quote } = await orderStage({ TRUST_PROXY: 'loopback' })
    const ids: string[] = []
    const from = (client: string) => [
      'App-Name',
      'wallet',
      'Forwarded',
      `for=198.51.100.${client}`,
    ]
    for (const client of ['1', '2', '3']) {
      ids.push((await quote('0.1', { headers: from(client) })).id)
      clock.advance(1_000)
    }
    const terms = termsOf(await quote('0.1', { headers: from('1') }))
    const kept = async () => {
      const now = await Promise.all(
        ['1', '2', '3'].map((client) => quote('0.1', { headers: from(client) })),
      )
      return now.map(({ id }, at) => id === ids[at])
    }
    await order(terms)
    expect(await kept()).toEqual([true, true, false])
    await order(terms, { headers: ['App-Name: wallet', 'Forwarded: for=198.51.100.1'] })
    expect(await kept()).toEqual([false, true, false])
  })

  it('does not evict its successor', async () => {
    const { clock, order, provider, quote } = await orderStage()
    const taken = deferred<ServerResponse>()
    provider.takeOrder = (_request, response) => taken.resolve(response)
    const given = await quote()
    clock.set(given.expiry - 1)
    const placed = order(termsOf(given))
    const response = await taken.promise
    clock.set(given.expiry)
    const next = await quote()
    response.writeHead(201).end()
    expect((await placed).status).toBe(201)
    expect((await quote()).id).toBe(next.id)
  })
})
