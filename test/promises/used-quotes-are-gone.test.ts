import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { orderStage, termsOf } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { deferred } from '../support/clients/quotes.ts'

const isHit = ({ cacheStatus }: { cacheStatus: string }) => /; hit;/.test(cacheStatus)

describe('a quote that an accepted order used is served no more: it', () => {
  it.each([200, 201, 202, 204, 299])('is not served again after a %d', async (status) => {
    const { order, provider, quote } = await orderStage()
    provider.takeOrder = (_request, response) => response.writeHead(status).end()
    const given = await quote()
    expect((await quote()).id).toBe(given.id)
    expect((await order(termsOf(given))).status).toBe(status)
    const next = await quote()
    expect(next.id).not.toBe(given.id)
    expect(isHit(next)).toBe(false)
    expect((await quote()).id).toBe(next.id)
  })

  it.each([302, 400, 404, 409, 422, 500, 503])('is served again after a %d', async (status) => {
    const { order, provider, quote } = await orderStage()
    provider.takeOrder = (_request, response) => response.writeHead(status).end()
    const given = await quote()
    expect((await order(termsOf(given))).status).toBe(status)
    const next = await quote()
    expect([next.id, isHit(next)]).toEqual([given.id, true])
  })

  it('is found by its id too, and other quotes stay in the cache', async () => {
    const { order, quote } = await orderStage()
    const first = await quote('0.1')
    const second = await quote('0.2')
    expect((await order({ quoteId: first.id })).status).toBe(201)
    expect((await quote('0.2')).id).toBe(second.id)
    expect((await quote('0.1')).id).not.toBe(first.id)
  })

  it("is evicted although the order's answer was cut short after a 201", async () => {
    const { order, provider, quote } = await orderStage()
    provider.takeOrder = (_request, response) => {
      response.writeHead(201, { 'Content-Length': 100 })
      response.write('{"id":', () => response.destroy())
    }
    const given = await quote()
    expect(expectProblem(await order(termsOf(given)), 502, 'upstream-invalid').retryable).toBe(false)
    expect((await quote()).id).not.toBe(given.id)
  })

  it('of several with equal terms is the one that expires last', async () => {
    const { clock, order, quote } = await orderStage({ TRUST_PROXY: 'loopback' })
    const from = (client: string) =>
      quote('0.1', { headers: ['App-Name', 'wallet', 'Forwarded', `for=198.51.100.${client}`] })
    const first = await from('1')
    clock.advance(1_000)
    const second = await from('2')
    expect((await order(termsOf(first))).status).toBe(201)
    expect((await from('1')).id).toBe(first.id)
    expect((await from('2')).id).not.toBe(second.id)
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
