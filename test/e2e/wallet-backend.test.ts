import { describe, expect, test } from 'vitest'
import { everyWay, setStage, valuesOf } from './support.ts'

/**
 * Story 1: the wallet backend asks for a quote for each of its users, with the user's address in Forwarded,
 * shows a countdown, and posts a float order when the user confirms.
 */
describe.each(everyWay)('the wallet backend, through %s,', (_way, open) => {
  const quoteTarget = '/v3/pairs/ETH_USDC/quotes?amount=0.1'

  /** A network of the backend's own in front of the gateway, which is on loopback here. */
  async function stage() {
    const { sandbox, gateway } = await setStage({ TRUST_PROXY: 'loopback,10.0.0.0/8' })
    const ask = open(gateway)
    const quoteFor = (forwarded: string) =>
      ask('get', quoteTarget).set('App-Name', 'wallet').set('Forwarded', forwarded)
    return { sandbox, ask, quoteFor }
  }

  test.each([
    ['for=198.51.100.7', 'for=198.51.100.7'],
    ['for="198.51.100.7:4711";proto=https', 'for=198.51.100.7'],
    ['for="[2001:db8::17]"', 'for="[2001:db8::17]"'],
    ['for=203.0.113.9, for=198.51.100.7, for=10.1.2.3', 'for=198.51.100.7'],
  ])("sends its user's address: %s arrives as %s", async (sent, arrived) => {
    const { sandbox, quoteFor } = await stage()
    const { status, body } = await quoteFor(sent)
    expect(status).toBe(200)
    expect(body.expiry).toBeGreaterThan(Date.now())
    expect(valuesOf(sandbox.requests[0]?.rawHeaders, 'Forwarded')).toEqual([arrived])
    expect(valuesOf(sandbox.requests[0]?.rawHeaders, 'App-Name')).toEqual(['wallet'])
  })

  test("passes on the provider's own refusal of a restricted place, word for word", async () => {
    const { sandbox, quoteFor } = await stage()
    const fromProvider = await fetch(sandbox.url + quoteTarget, {
      headers: { 'App-Name': 'wallet', Forwarded: 'for=203.0.113.7' },
    })
    const refused = await quoteFor('for=203.0.113.7')
    expect([refused.status, refused.text]).toEqual([403, '{"code":"RESTRICTED_GEOLOCATION"}'])
    expect([fromProvider.status, await fromProvider.text()]).toEqual([refused.status, refused.text])
    expect(refused.headers['content-type']).toBe(fromProvider.headers.get('content-type'))
    expect(refused.headers['proxy-status']).toBeUndefined()
  })

  test('gets quotes for its other users while one is refused', async () => {
    const { quoteFor } = await stage()
    const users = ['198.51.100.7', '203.0.113.7', '198.51.100.8', '203.0.113.8']
    const answers = await Promise.all(users.map((user) => quoteFor(`for=${user}`)))
    expect(answers.map(({ status }) => status)).toEqual([200, 403, 200, 403])
  })

  test('places a float order by its terms alone, and follows it', async () => {
    const { sandbox, ask, quoteFor } = await stage()
    const quote = (await quoteFor('for=198.51.100.7')).body
    // Numbers, and no quote id: this is what a public client was seen to send.
    const order = `{"pairId":"ETH_USDC","fromAmount":0.1, "fromAddress":"0xf","toAddress":"0xt","toAmount":${quote.toAmount.value}}`
    const placed = await ask('post', '/v3/orders/float')
      .set({ 'App-Name': 'wallet', 'Content-Type': 'application/json', Forwarded: 'for=198.51.100.7' })
      .send(order)
    expect(placed.status).toBe(201)
    expect(placed.body).toMatchObject({ rateId: quote.id, status: 'awaiting', toAmount: quote.toAmount })
    expect(sandbox.requests.at(-1)?.body.toString()).toBe(order)
    const followed = await ask('get', `/v3/orders/${placed.body.id}`).set('Forwarded', 'for=198.51.100.7')
    expect(followed.body.id).toBe(placed.body.id)
  })
})
