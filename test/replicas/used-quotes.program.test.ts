import { describe, expect, it } from 'vitest'
import { act } from '../operations/support.ts'
import { post } from '../support/clients/orders.ts'
import {
  ask,
  counted,
  giveQuote,
  quoteBody,
  quotePath,
  untilCounted,
} from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayWith, pause } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import {
  cacheStatusOf,
  eventually,
  idOf,
  replicaSettings,
  replicaStage,
  stored,
} from '../support/gateways/replicas.ts'

const dropped = (reason: string) => `quotegate_cache_evictions_total{reason="${reason}"}`
const path = (amount: number) => `${quotePath}?amount=${amount}`

/** Replicas in front of a provider that answers at once. */
async function usedStage(count: number, settings: Record<string, string> = {}) {
  const stage = await replicaStage(count, settings)
  stage.upstream.answer(({ method, target }, response) => {
    if (method === 'POST') response.writeHead(201).end('{}')
    else {
      const value = new URLSearchParams(target.split('?')[1]).get('amount')
      giveQuote(response, quoteBody({ fromAmount: { assetId: 'ETH', value } }))
    }
  })
  return stage
}

/** One quote that all of them have in memory. */
async function sharedQuote(
  { replicas, here }: Awaited<ReturnType<typeof replicaStage>>,
  amount = 1,
) {
  const before = await counted(here, stored('quote-set'))
  const id = idOf(await ask(here.url, { path: path(amount) }))
  await untilCounted(here, stored('quote-set'), before + 1)
  for (const { url } of replicas) {
    for (const how of [/; hit;|stored/, /; hit;/]) {
      const answer = await ask(url, { path: path(amount) })
      expect([idOf(answer), cacheStatusOf(answer)]).toEqual([
        id,
        expect.stringMatching(how),
      ])
    }
  }
  return id
}

async function order(url: string, quoteId: string): Promise<void> {
  expect((await rawExchange(url, post(JSON.stringify({ quoteId })))).status).toBe(201)
}

describe('a quote that an order used at one replica', { tags: ['redis-server'] }, () => {
  it('is served by no other replica 200 ms later, also one that has it in memory', async () => {
    const stage = await usedStage(3)
    const [here, there, third] = stage.replicas as [
      RunningGateway,
      RunningGateway,
      RunningGateway,
    ]
    for (let amount = 1; amount <= 5; amount += 1) {
      const id = await sharedQuote(stage, amount)
      await order(there.url, id)
      const orderedAtMs = performance.now()
      let lastServedMs = 0
      let isServed = true
      while (isServed || performance.now() - orderedAtMs < 200) {
        const sentAtMs = performance.now()
        const answers = await Promise.all(
          [here, third].map(({ url }) => ask(url, { path: path(amount) })),
        )
        isServed = answers.some((answer) => idOf(answer) === id)
        if (isServed) lastServedMs = sentAtMs - orderedAtMs
      }
      expect(lastServedMs).toBeLessThan(200)
      const asked = stage.upstream.requests.length
      const all = stage.replicas.map(async ({ url }) =>
        idOf(await ask(url, { path: path(amount) })),
      )
      expect(await Promise.all(all)).not.toContain(id)
      // It is not in the store either: the next one was there before.
      expect(stage.upstream.requests).toHaveLength(asked)
    }
  })

  it("that the provider gave to another replica's user too is served by neither, nor by one that starts later", async () => {
    const { store, upstream, here, there } = await usedStage(2)
    const askAs = (version: string, url: string) =>
      ask(url, { headers: ['App-Name', 'wallet', 'App-Version', version] })
    const body = quoteBody({ id: 'a' })
    const bodies = [body, body, quoteBody({ id: 'b' })]
    upstream.answer(({ method }, response) => {
      if (method === 'POST') response.writeHead(201).end('{}')
      else giveQuote(response, bodies.shift())
    })
    expect(idOf(await askAs('1', there.url))).toBe('a')
    expect(idOf(await askAs('2', here.url))).toBe('a')
    await order(here.url, 'a')
    await pause(200)
    const later = await gatewayWith(replicaSettings(store, upstream))
    expect(idOf(await askAs('1', later.url))).toBe('b')
    expect(idOf(await askAs('1', there.url))).not.toBe('a')
  })

  it('is gone everywhere after the store was away when it was used', async () => {
    const stage = await usedStage(2, { VALKEY_TIMEOUT_MS: '200' })
    const { store, here, there } = stage
    const id = await sharedQuote(stage)
    store.freeze()
    await eventually(
      'the store to be down',
      async () => (await counted(there, 'quotegate_store_up')) === 0,
    )
    await order(there.url, id)
    // The trade: what is here is served on, or a store that is down would stop the cache.
    expect(idOf(await ask(here.url, { path: path(1) }))).toBe(id)
    // At the order's own replica it is still gone, and no request fails.
    expect(idOf(await ask(there.url, { path: path(1) }))).not.toBe(id)
    store.thaw()
    await eventually(
      'it to be gone here',
      async () => idOf(await ask(here.url, { path: path(1) })) !== id,
    )
    expect(idOf(await ask(there.url, { path: path(1) }))).not.toBe(id)
    const later = await gatewayWith(replicaSettings(store, stage.upstream))
    expect(idOf(await ask(later.url, { path: path(1) }))).not.toBe(id)
  })
})

describe('a quote that is dropped in the console of one replica', {
  tags: ['redis-server'],
}, () => {
  it.each([['drop'], ['drop-all']])(
    'is removed from the other replicas and from the store (%s)',
    async (action) => {
      const stage = await usedStage(2)
      const ids = [await sharedQuote(stage, 1), await sharedQuote(stage, 2)]
      const answer = await act(stage.here, action, { id: ids[0] })
      expect(JSON.parse(answer.body)).toEqual({ dropped: action === 'drop' ? 1 : 2 })
      await untilCounted(stage.there, dropped('elsewhere'), action === 'drop' ? 1 : 2)
      expect(idOf(await ask(stage.there.url, { path: path(1) }))).not.toBe(ids[0])
      const second = idOf(await ask(stage.there.url, { path: path(2) }))
      expect(second === ids[1]).toBe(action === 'drop')
    },
  )
})
