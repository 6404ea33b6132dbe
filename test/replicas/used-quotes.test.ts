import type { ServerResponse } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { act } from '../operations/support.ts'
import { post } from '../support/clients/orders.ts'
import { ask, counted, giveQuote, quoteBody, quotePath, untilCounted } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { pause, until } from '../support/gateways/between.ts'
import { type RunningGateway, startGateway } from '../support/gateways/gateway.ts'
import {
  cacheStatusOf,
  eventually,
  idOf,
  type ReplicaStage,
  replicaSettings,
  replicaStage,
  stored,
} from '../support/gateways/replicas.ts'

const dropped = (reason: string) => `quotegate_cache_evictions_total{reason="${reason}"}`
const path = (amount: number) => `${quotePath}?amount=${amount}`

/** Replicas in front of a provider that answers at once. */
async function usedStage(count: number, settings: Record<string, string> = {}): Promise<ReplicaStage> {
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
async function sharedQuote({ replicas, here }: ReplicaStage, amount = 1): Promise<string> {
  const before = await counted(here, stored('quote-set'))
  const id = idOf(await ask(here.url, { path: path(amount) }))
  await untilCounted(here, stored('quote-set'), before + 1)
  for (const { url } of replicas) {
    for (const how of [/; hit;|stored/, /; hit;/]) {
      const answer = await ask(url, { path: path(amount) })
      expect([idOf(answer), cacheStatusOf(answer)]).toEqual([id, expect.stringMatching(how)])
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
    const [here, there, third] = stage.replicas as [RunningGateway, RunningGateway, RunningGateway]
    for (let amount = 1; amount <= 20; amount += 1) {
      const id = await sharedQuote(stage, amount)
      await order(there.url, id)
      const orderedAtMs = performance.now()
      let lastServedMs = 0
      while (performance.now() - orderedAtMs < 200) {
        const sentAtMs = performance.now()
        const answers = await Promise.all([here, third].map(({ url }) => ask(url, { path: path(amount) })))
        if (answers.some((answer) => idOf(answer) === id)) lastServedMs = sentAtMs - orderedAtMs
      }
      expect(lastServedMs).toBeLessThan(200)
      const ids = await Promise.all(
        stage.replicas.map(async ({ url }) => idOf(await ask(url, { path: path(amount) }))),
      )
      expect(ids).not.toContain(id)
    }
  })

  it('is served by none that a slower replica puts it in front of, after its order', async () => {
    const stage = await usedStage(2, { lockWaitMs: '0' })
    const { store, upstream, here, there } = stage
    const body = quoteBody({ id: 'a' })
    upstream.answer(({ method }, response) => {
      if (method === 'POST') response.writeHead(201).end('{}')
      else giveQuote(response, body)
    })
    expect(idOf(await ask(there.url))).toBe('a')
    await untilCounted(there, stored('quote-set'), 1)
    const [key = ''] = (await store.ask('KEYS', 'quotegate:cache:*')) as string[]
    const fields = (await store.ask('HGETALL', key)) as string[]
    await order(there.url, 'a')
    await eventually('the copy to be gone', async () => (await store.ask('HEXISTS', key, 'quote')) === 0)
    // As the put of a replica that has not heard of the order.
    await store.ask('HSET', key, ...fields)
    upstream.answer((_request, response) => giveQuote(response, quoteBody({ id: 'b' })))
    await pause(200)
    expect(idOf(await ask(here.url))).toBe('b')
    expect(idOf(await ask(there.url))).toBe('b')
    const later = await startGateway(replicaSettings(store, upstream))
    onTestFinished(() => later.close())
    expect(idOf(await ask(later.url))).not.toBe('a')
  })

  it('is not put into the store by a replica whose call brings it after its order', async () => {
    const { store, upstream, here, there, waiting } = await usedStage(2, { lockWaitMs: '0' })
    const body = quoteBody({ id: 'a' })
    expect(idOf(await ask(there.url))).not.toBe('a')
    upstream.answer(({ method, target }, response) => {
      if (method === 'POST') response.writeHead(201).end('{}')
      else if (target.includes('slow')) waiting.push(response)
      else giveQuote(response, body)
    })
    const asAnother = ask(here.url, { path: `${quotePath}?amount=0.1&slow=1` })
    await until(() => waiting.length === 1, 'the slow call')
    await ask(there.url, { path: `${quotePath}?amount=0.1&quick=1` })
    await order(there.url, 'a')
    await pause(200)
    giveQuote(waiting[0] as ServerResponse, body)
    expect(idOf(await asAnother)).toBe('a')
    await pause(100)
    for (const key of (await store.ask('KEYS', 'quotegate:cache:*')) as string[])
      expect(String(await store.ask('HGET', key, 'quote'))).not.toContain('"a"')
  })

  describe("and that the provider gave to another replica's client too, unknown to the order's replica", () => {
    const askAs = (version: string, url: string) =>
      ask(url, { headers: ['App-Name', 'wallet', 'App-Version', version] })

    async function usedElsewhere(): Promise<ReplicaStage> {
      const stage = await usedStage(2)
      const { upstream, here, there } = stage
      const body = quoteBody({ id: 'a' })
      const bodies = [body, body, quoteBody({ id: 'b' }), quoteBody({ id: 'c' })]
      upstream.answer(({ method }, response) => {
        if (method === 'POST') response.writeHead(201).end('{}')
        else giveQuote(response, bodies.shift())
      })
      expect(idOf(await askAs('1', there.url))).toBe('a')
      expect(idOf(await askAs('2', here.url))).toBe('a')
      await order(here.url, 'a')
      await pause(200)
      return stage
    }

    it('is not served by that replica', async () => {
      const { there } = await usedElsewhere()
      expect(idOf(await askAs('1', there.url))).toBe('b')
    })

    it('is not served by a replica that starts later', async () => {
      const { store, upstream } = await usedElsewhere()
      const later = await startGateway(replicaSettings(store, upstream))
      onTestFinished(() => later.close())
      expect(idOf(await askAs('1', later.url))).toBe('b')
    })
  })

  it('is not found in the store by a replica that never had it', async () => {
    const stage = await usedStage(2)
    const id = await sharedQuote(stage)
    await order(stage.there.url, id)
    const asked = stage.upstream.requests.length
    await untilCounted(stage.there, stored('quote-forget'), 1)
    await pause(200)
    const next = await ask(stage.here.url, { path: path(1) })
    expect(idOf(next)).not.toBe(id)
    expect(stage.upstream.requests.length).toBe(asked + 1)
  })

  it('is gone everywhere after the store was away when it was used', async () => {
    const stage = await usedStage(2, { VALKEY_TIMEOUT_MS: '200' })
    const { store, here, there } = stage
    const id = await sharedQuote(stage)
    store.freeze()
    await eventually('the store to be down', async () => (await counted(there, 'quotegate_store_up')) === 0)
    await order(there.url, id)
    // The trade: what is here is served on, or a store that is down would stop the cache.
    expect(idOf(await ask(here.url, { path: path(1) }))).toBe(id)
    // At the order's own replica it is still gone, and no request fails.
    expect(idOf(await ask(there.url, { path: path(1) }))).not.toBe(id)
    store.thaw()
    await eventually('it to be gone here', async () => idOf(await ask(here.url, { path: path(1) })) !== id)
    expect(idOf(await ask(there.url, { path: path(1) }))).not.toBe(id)
    const later = await startGateway(replicaSettings(store, stage.upstream))
    onTestFinished(() => later.close())
    expect(idOf(await ask(later.url, { path: path(1) }))).not.toBe(id)
  })
})

describe('a quote that is dropped in the console of one replica', { tags: ['redis-server'] }, () => {
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
