import { expect, it } from 'vitest'
import { systemClock as clock } from '../../src/clock.ts'
import { createMemoryQuoteStore } from '../../src/quotes/memory-quote-store.ts'
import { createEvictions } from '../../src/replicas/evictions.ts'
import { createSharedQuotes, type Sharing } from '../../src/replicas/shared-quotes.ts'
import { createValkeyQuoteStore, type SharedQuoteStore } from '../../src/replicas/valkey/quote-store.ts'
import { storedQuote } from '../contract/quote-store.ts'
import { pause, until } from '../support/gateways/between.ts'
import { eventually } from '../support/gateways/replicas.ts'
import { storeAt, type ValkeyServer, valkey } from '../support/stores/valkey.ts'

const answer = {
  status: 200,
  reason: 'OK',
  headers: [],
  body: Buffer.from('fetched'),
  end: undefined,
  stored: storedQuote({ id: 'fetched' }),
  notKept: undefined,
  shared: true,
}

/** The parts of one replica, and what it says of the store's answers to `between` before it goes on. */
async function replica(server: ValkeyServer, between: () => Promise<void> = async () => {}) {
  const sharedStore = await storeAt(server.url)
  const store = createValkeyQuoteStore({ sharedStore, clock })
  const held: SharedQuoteStore = {
    ...store,
    async getOrLock(key, options) {
      const result = await store.getOrLock(key, options)
      await between()
      return result
    },
  }
  const memory = createMemoryQuoteStore({ maxEntries: 10, maxBytes: 100_000 })
  let listening = false
  const evictions = createEvictions({
    cacheKeysOf: () => [],
    memory,
    clock,
    store: held,
    observer: {
      dropped(reason) {
        listening ||= reason === 'gap'
      },
    },
  })
  await until(() => listening, 'its subscription')
  const sharings: Sharing[] = []
  const share = createSharedQuotes({
    store: held,
    evictions,
    clock,
    minValidityMs: 0,
    lockWaitMs: 10_000,
    pause,
    observer: { shared: (sharing) => sharings.push(sharing) },
  })
  let calls = 0
  const fetch = () =>
    share(
      'key',
      () => {
        calls += 1
        return { answer: Promise.resolve(answer), abort() {} }
      },
      undefined,
    ).answer
  return { store, memory, evictions, fetch, sharings, calls: () => calls, isUp: () => sharedStore.up }
}

it("a quote that was evicted while the store's answer was on its way is not cached", {
  tags: ['redis-server'],
}, async () => {
  const server = await valkey()
  const other = await replica(server)
  await other.store.set('key', storedQuote({ id: 'used' }))
  let times = 0
  const heard: string[] = []
  const here = await replica(server, async () => {
    times += 1
    if (times > 1) return
    // The answer with the quote is there; before it is looked at, its eviction passes.
    other.evictions.evict('key', storedQuote({ id: 'used' }))
    await until(() => heard.length > 0, 'the message')
  })
  here.store.subscribe({ onEvicted: (_key, id) => heard.push(id), onGap() {}, onUp() {} })
  expect(await here.fetch()).toMatchObject({ stored: { id: 'fetched' } })
  expect([here.calls(), here.sharings]).toEqual([1, ['fetched']])
})

it('a quote that the provider gave twice and an order used is not kept by the replica that got it second', {
  tags: ['redis-server'],
}, async () => {
  const server = await valkey()
  const [here, there] = [await replica(server), await replica(server)]
  let heard = false
  here.store.subscribe({ onEvicted: () => (heard = true), onGap() {}, onUp() {} })
  there.evictions.evict('key', storedQuote({ id: 'fetched' }))
  await until(() => heard, 'the message')
  // As the cache does it: the answer is kept at once, and written to the store behind the client's back.
  const brought = await here.fetch()
  if (brought.stored !== undefined) here.memory.set('key', brought.stored)
  await until(() => here.memory.get('key') === undefined, 'it to go')
  expect(await here.store.get('key')).toBeUndefined()
})

it('evictions during an outage are sent after it, and their number is bounded', {
  tags: ['redis-server'],
}, async () => {
  const server = await valkey()
  const { evictions, isUp } = await replica(server)
  await server.kill()
  await until(() => !isUp(), 'it to be down')
  const count = 10_050
  const used = (id: string) => ({ id, expiresAtMs: Date.now() + 60_000 })
  for (let index = 0; index < count; index += 1) evictions.evict(`key ${index}`, used('used'))
  for (let index = 0; index < 50; index += 1) evictions.evict(`key ${count - 1}`, used(`used ${index}`))
  await server.restartEmpty()
  const keys = async () => ((await server.ask('KEYS', 'quotegate:quote:*')) as string[]).length
  await eventually('all to be said', async () => (await keys()) === 10_000)
  await eventually('the last one', async () => (await usedOf(server, `key ${count - 1}`)).length === 4)
  // The first are the first to expire.
  expect(await usedOf(server, 'key 0')).toEqual([])
})

// All at once they would miss the deadline of one call, and the store would count as down.
it('a quote under a thousand cache keys is evicted from fifty at a time', async () => {
  let underWay = 0
  let most = 0
  let told = 0
  const evictions = createEvictions({
    cacheKeysOf: () => [],
    memory: createMemoryQuoteStore({ maxEntries: 10, maxBytes: 100_000 }),
    clock,
    observer: { dropped() {} },
    store: {
      subscribe() {},
      async evict() {
        underWay += 1
        most = Math.max(most, underWay)
        await pause(1)
        underWay -= 1
        told += 1
        return true
      },
    },
  })
  const keys = Array.from({ length: 1_000 }, (_none, index) => `key ${index}`)
  evictions.use(keys, { id: 'used', expiresAtMs: Number.POSITIVE_INFINITY })
  await until(() => told === 1_000, 'all to be notified')
  expect(most).toBe(50)
})

async function usedOf(server: ValkeyServer, key: string): Promise<string[]> {
  const used = (await server.ask('HGET', `quotegate:quote:${key}`, 'used')) as string | null
  return (used ?? '').split('\n').filter((id) => id !== '')
}
