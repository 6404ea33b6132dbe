import { describe, expect, it, onTestFinished } from 'vitest'
import { act } from '../operations/support.ts'
import { post } from '../support/clients/orders.ts'
import { ask, counted, giveQuote, quoteBody, quotePath, untilCounted } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { pause } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import {
  cacheStatusOf,
  eventually,
  idOf,
  type ReplicaStage,
  replicaSettings,
  replicaStage,
  stored,
} from '../support/gateways/replicas.ts'

const evictions = (reason: string) => `quotegate_cache_evictions_total{reason="${reason}"}`
const path = (amount: number) => `${quotePath}?amount=${amount}`

/** Replicas in front of a provider that answers at once. */
async function evictionStage(count: number, settings: Record<string, string> = {}): Promise<ReplicaStage> {
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
  it('stops being served by other replicas within milliseconds', async () => {
    const stage = await evictionStage(2)
    const { here, there } = stage
    const tookMs: number[] = []
    for (let amount = 1; amount <= 20; amount += 1) {
      const id = await sharedQuote(stage, amount)
      const dropped = await counted(here, evictions('elsewhere'))
      await order(there.url, id)
      const orderedAtMs = performance.now()
      await eventually('the eviction to arrive', async () => {
        return (await counted(here, evictions('elsewhere'))) > dropped
      })
      tookMs.push(performance.now() - orderedAtMs)
      const next = await ask(here.url, { path: path(amount) })
      expect(idOf(next)).not.toBe(id)
      expect(idOf(await ask(there.url, { path: path(amount) }))).toBe(idOf(next))
    }
    tookMs.sort((left, right) => left - right)
    const [median = 0, most = 0] = [tookMs[10], tookMs.at(-1)]
    process.stdout.write(
      `an eviction was at the other replica ${median.toFixed(1)} ms after the order's answer `,
    )
    process.stdout.write(`(median of 20; at most ${most.toFixed(1)} ms)\n`)
  })

  describe("and that the provider gave to another replica's client too, unknown to the order's replica", () => {
    const askAs = (version: string, url: string) =>
      ask(url, { headers: ['App-Name', 'wallet', 'App-Version', version] })

    async function usedElsewhere(): Promise<ReplicaStage & { body: string }> {
      const stage = await evictionStage(2)
      const { upstream, here, there } = stage
      const body = quoteBody({ id: 'a' })
      const bodies = [body, body, quoteBody({ id: 'b' }), quoteBody({ id: 'c' })]
      upstream.answer(({ method }, response) => {
        if (method === 'POST') response.writeHead(201).end('{}')
        else giveQuote(response, bodies.shift())
      })
      expect(idOf(await askAs('1', there.url))).toBe('a')
      await untilCounted(there, stored('quote-set'), 1)
      expect(idOf(await askAs('2', here.url))).toBe('a')
      await untilCounted(here, stored('quote-set'), 1)
      await order(here.url, 'a')
      await eventually('the eviction to arrive', async () => {
        return (await counted(there, evictions('elsewhere'))) > 0
      })
      return { ...stage, body }
    }

    it('is not served by that replica', async () => {
      const { there } = await usedElsewhere()
      expect(idOf(await askAs('1', there.url))).toBe('b')
    })

    it('is evicted at a replica that started later, once a replica that knows of its use finds it in the store', async () => {
      const { store, upstream, here, body } = await usedElsewhere()
      upstream.answer((_request, response) => giveQuote(response, body))
      const later = await startGateway(replicaSettings(store, upstream))
      onTestFinished(() => later.close())
      await untilCounted(later, 'quotegate_store_up', 1)
      expect(idOf(await askAs('3', later.url))).toBe('a')
      await untilCounted(later, stored('quote-set'), 1)
      expect(cacheStatusOf(await askAs('3', later.url))).toContain('; hit;')
      upstream.answer((_request, response) => giveQuote(response, quoteBody({ id: 'next' })))
      expect(idOf(await askAs('3', here.url))).toBe('next')
      await untilCounted(later, evictions('elsewhere'), 1)
      expect(idOf(await askAs('3', later.url))).toBe('next')
    })

    it('is not found in the store by a replica that starts later', async () => {
      const { store, upstream, there } = await usedElsewhere()
      await untilCounted(there, stored('quote-forget'), 1)
      const later = await startGateway(replicaSettings(store, upstream))
      onTestFinished(() => later.close())
      await untilCounted(later, 'quotegate_store_up', 1)
      expect(idOf(await askAs('1', later.url))).toBe('b')
    })
  })

  it('is not found in the store by a replica that never had it', async () => {
    const stage = await evictionStage(2)
    const id = await sharedQuote(stage)
    await order(stage.there.url, id)
    const asked = stage.upstream.requests.length
    await eventually(
      'the store to forget it',
      async () => (await counted(stage.there, stored('quote-forget'))) === 1,
    )
    const next = await ask(stage.here.url, { path: path(1) })
    expect(idOf(next)).not.toBe(id)
    expect(stage.upstream.requests.length).toBe(asked + 1)
  })

  it('does not evict its successor', async () => {
    const stage = await evictionStage(2)
    const { store, here, there } = stage
    const id = await sharedQuote(stage)
    await order(there.url, id)
    await eventually('the eviction', async () => idOf(await ask(here.url, { path: path(1) })) !== id)
    const next = idOf(await ask(here.url, { path: path(1) }))
    const [key = ''] = (await store.ask('KEYS', '*quote:*')) as string[]
    // As from a replica that was slow to say it.
    await store.ask(
      'PUBLISH',
      'quotegate:evicted',
      JSON.stringify([key.slice('quotegate:quote:'.length), id]),
    )
    await pause(50)
    const answer = await ask(here.url, { path: path(1) })
    expect([idOf(answer), cacheStatusOf(answer)]).toEqual([next, expect.stringContaining('; hit;')])
  })
})

describe('when messages may have been missed', { tags: ['redis-server'] }, () => {
  it('no local copy is trusted, and each is read from the store again', async () => {
    const stage = await evictionStage(2)
    const { store, here, upstream } = stage
    const id = await sharedQuote(stage)
    const asked = upstream.requests.length
    const gaps = await counted(here, evictions('gap'))
    await store.ask('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await untilCounted(here, evictions('gap'), gaps + 1)
    expect(idOf(await ask(here.url, { path: path(1) }))).toBe(id)
    expect(await counted(here, 'quotegate_cache_lookups_total{result="shared"}')).toBe(1)
    expect(upstream.requests.length).toBe(asked)
  })

  it('because the store was down, the eviction is repeated before anything is read from the store', async () => {
    const stage = await evictionStage(2, { VALKEY_TIMEOUT_MS: '200' })
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
    await eventually('it to be gone from the store', async () => {
      const [key = ''] = (await store.ask('KEYS', '*quote:*')) as string[]
      return String(await store.ask('HGET', key, 'used')).includes(id)
    })
  })
})

describe('a quote that is dropped in the console of one replica', { tags: ['redis-server'] }, () => {
  it.each([['drop'], ['drop-all']])(
    'is removed from the other replicas and from the store (%s)',
    async (action) => {
      const stage = await evictionStage(2)
      const ids = [await sharedQuote(stage, 1), await sharedQuote(stage, 2)]
      const answer = await act(stage.here, action, { id: ids[0] })
      expect(JSON.parse(answer.body)).toEqual({ dropped: action === 'drop' ? 1 : 2 })
      await untilCounted(stage.there, evictions('elsewhere'), action === 'drop' ? 1 : 2)
      expect(idOf(await ask(stage.there.url, { path: path(1) }))).not.toBe(ids[0])
      const second = idOf(await ask(stage.there.url, { path: path(2) }))
      expect(second === ids[1]).toBe(action === 'drop')
    },
  )
})
