import { describe, expect, test } from 'vitest'
import { valuesOf } from '../support/clients/raw-connection.ts'
import { everyWay, setStage } from './support.ts'

/**
 * Story 1: the wallet backend asks for a quote for each of its users, with the user's address in Forwarded,
 * shows a countdown, and posts a float order when the user confirms.
 */
describe.each(everyWay)('the wallet backend, through %s,', (_way, open) => {
  test('gets quotes for its users while one is refused for its place, places a float order, and follows it', async () => {
    // A network of the backend's own is in front of the gateway, which is on loopback here.
    const { sandbox, gateway } = await setStage({ TRUST_PROXY: 'loopback,10.0.0.0/8' })
    const ask = open(gateway)
    const quoteFor = (forwarded: string) =>
      ask('get', '/v3/pairs/ETH_USDC/quotes?amount=0.1')
        .set('App-Name', 'wallet')
        .set('Forwarded', forwarded)
    const [quoted, refused, other] = await Promise.all([
      quoteFor('for=203.0.113.9, for="198.51.100.7:4711";proto=https, for=10.1.2.3'),
      quoteFor('for=203.0.113.7'),
      quoteFor('for="[2001:db8::17]"'),
    ])
    expect([quoted.status, other.status]).toEqual([200, 200])
    // In the provider's own words.
    expect([refused.status, refused.text]).toEqual([
      403,
      '{"code":"RESTRICTED_GEOLOCATION"}',
    ])
    const users = sandbox.requests.flatMap(({ rawHeaders }) =>
      valuesOf(rawHeaders, 'forwarded'),
    )
    expect(users.sort()).toEqual([
      'for="[2001:db8::17]"',
      'for=198.51.100.7',
      'for=203.0.113.7',
    ])

    // Numbers, and no quote id: this is what a published program was seen to send.
    const { id, toAmount } = quoted.body
    const order = `{"pairId":"ETH_USDC","fromAmount":0.1, "fromAddress":"0xf","toAddress":"0xt","toAmount":${toAmount.value}}`
    const headers = {
      'App-Name': 'wallet',
      'Content-Type': 'application/json',
      Forwarded: 'for=198.51.100.7',
    }
    const placed = await ask('post', '/v3/orders/float').set(headers).send(order)
    expect(placed.status).toBe(201)
    expect(placed.body).toMatchObject({ status: 'awaiting', toAmount })
    // The provider cannot tell two quotes of one price apart, as the order names none.
    expect([id, other.body.id]).toContain(placed.body.rateId)
    expect(sandbox.requests.at(-1)?.body.toString()).toBe(order)
    const followed = await ask('get', `/v3/orders/${placed.body.id}`).set(headers)
    expect(followed.body.id).toBe(placed.body.id)
  })
})
