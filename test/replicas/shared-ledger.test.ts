import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { decide } from '../../src/orders/guard.ts'
import { Ledger } from '../../src/orders/ledger.ts'
import type { NotedQuote } from '../../src/orders/noted-quote.ts'
import { type OrderTerms, readOrder } from '../../src/orders/order-terms.ts'
import { createSharedLedger } from '../../src/replicas/shared-ledger.ts'
import type { SharedStore } from '../../src/replicas/store.ts'
import { pause, until } from '../support/gateways/between.ts'
import {
  startValkey,
  startValkeyCluster,
  storeAt,
  type ValkeyCluster,
  type ValkeyServer,
  valkey,
} from '../support/stores/valkey.ts'

const keyPrefix = 'test:'
const retentionMs = 86_400_000
/** Past the life of a quote, which the store's clock, cut to milliseconds, can make one longer. */
const pastMs = 30_001
const nowMs = 1_763_651_811_481
const expiry = nowMs + 30_000

let given = 0
/** Each with an id of its own. */
function quote(changes: Partial<NotedQuote> = {}): NotedQuote {
  given += 1
  const { expiresAtMs = expiry } = changes
  return {
    id: `q${given}`,
    pairId: 'ETH_USDC',
    fromValue: '0.1',
    toValue: '289.645',
    requestedAmount: '0.1',
    application: 'wallet',
    partition: 'own',
    expiresAtMs,
    refusedFromMs: expiresAtMs,
    wallAheadMs: 0,
    cacheKey: `#key ${given}`,
    notedAtMs: nowMs,
    ...changes,
  }
}

function order(json: object | string): OrderTerms {
  const text = typeof json === 'string' ? json : JSON.stringify(json)
  const reading = readOrder(Buffer.from(text), { quoteIdFields: ['quoteId', 'quote.id', 'id'] })
  if (reading.order === undefined) throw new Error(reading.problem)
  return reading.order
}

/** Of a quote that is over, after its expiry. */
const otherNote = `${nowMs} ["x","BTC_USDC","0.1","0.1","289.645","wallet",1,"k","own",0]`

const terms = { pairId: 'ETH_USDC', fromAmount: 0.1, toAmount: 289.645 }
const byTerms = order(terms)
const orderer = { application: 'wallet', partition: 'own', isAddress: true }

function replicaOn(sharedStore: SharedStore, { settleMs = 0, wallMs = nowMs } = {}) {
  let advancedMs = 0
  const clock = { nowMs: () => wallMs + advancedMs }
  const ledger = new Ledger({ entries: 1_000, retentionMs, clock })
  const shared = createSharedLedger({ sharedStore, ledger, clock, retentionMs, settleMs })
  return {
    ...shared,
    ledger,
    advance: (ms: number) => {
      advancedMs += ms
    },
    /** What an order is answered here. */
    async judge(asked: OrderTerms, application = 'wallet', partition = 'own') {
      const by = { application, partition, isAddress: true }
      const othersKnown = await shared.recall(asked, by)
      const verdict = decide(ledger, asked, { ...by, marginMs: 0, othersKnown })
      return { othersKnown, state: verdict.state, id: 'quote' in verdict ? verdict.quote.id : undefined }
    },
  }
}

const orders: readonly (readonly [
  how: string,
  noted: Partial<NotedQuote>,
  asked: (id: string) => object | string,
])[] = [
  ['its id', {}, (id) => ({ quoteId: id })],
  ['its id in another field', {}, (id) => ({ quote: { id } })],
  ['its terms, as numbers', {}, () => terms],
  ['its terms, as strings that spell them differently', {}, () => ({ ...terms, fromAmount: '1e-1' })],
  ['its terms, the amount to receive left open', {}, () => ({ pairId: 'ETH_USDC', fromAmount: 0.1 })],
  [
    'the amount that was asked for, where the provider rounded it',
    { fromValue: '0.1', requestedAmount: '0.1000001' },
    () => ({ ...terms, fromAmount: '0.1000001' }),
  ],
  [
    "the quote's own amount, where the provider rounded what was asked for",
    { fromValue: '0.1', requestedAmount: '0.1000001' },
    () => terms,
  ],
  [
    'an id of the longest kind, in the longest spelling',
    { id: '\u0001'.repeat(256), pairId: '\u0001'.repeat(256), cacheKey: '#'.padEnd(512) },
    (id) => ({ id }),
  ],
  [
    'a number that a browser made of a longer decimal',
    { fromValue: '123456789.123456789', requestedAmount: '123456789.123456789' },
    () => `{"pairId":"ETH_USDC","fromAmount":123456789.12345679,"toAmount":289.645}`,
  ],
  ['its id, though the terms are those of no quote', {}, (id) => ({ id, pairId: 'NO_PAIR', fromAmount: 7 })],
]

function describeSharing(open: () => Promise<{ here: SharedStore; there: SharedStore }>): void {
  it.each(orders)('finds a quote that another replica gave out by %s', async (_how, noted, asked) => {
    const { here, there } = await open()
    const [a, b] = [replicaOn(here), replicaOn(there)]
    const live = quote(noted)
    await a.note(live)
    expect(await b.judge(order(asked(live.id)))).toEqual({ othersKnown: true, state: 'live', id: live.id })
    b.advance(pastMs)
    expect(await b.judge(order(asked(live.id)))).toMatchObject({ state: 'expired', id: live.id })
  })

  it.each([
    ['another application', byTerms, 'shop'],
    ['another pair', order({ ...terms, pairId: 'BTC_USDC' }), 'wallet'],
    ['another amount', order({ ...terms, fromAmount: 0.2 }), 'wallet'],
    [
      'more digits than the double that it is filed under',
      order({ ...terms, fromAmount: '0.10000000000000000001' }),
      'wallet',
    ],
  ])('does not find a quote for %s', async (_what, asked, application) => {
    const { here, there } = await open()
    await replicaOn(here).note(quote())
    expect(await replicaOn(there).judge(asked, application)).toEqual({ othersKnown: true, state: 'unknown' })
  })

  it('keeps the latest expiry of equal terms, whatever order they were noted in', async () => {
    const { here, there } = await open()
    const moment = fc.integer({ min: -20, max: 20 })
    const toValue = fc.constantFrom('289.645', '289.646')
    const noting = fc.record({ by: fc.boolean(), moment, toValue })
    await fc.assert(
      fc.asyncProperty(fc.array(noting, { minLength: 1, maxLength: 12 }), async (notings) => {
        given += 1
        const pairId = `PAIR_${given}`
        const [a, b, judge] = [replicaOn(here), replicaOn(there), replicaOn(there)]
        const notes = notings.map((noting) => {
          const noted = quote({ pairId, toValue: noting.toValue, expiresAtMs: nowMs + noting.moment * 1_000 })
          return { noted, by: noting.by ? a : b }
        })
        await Promise.all(notes.map(({ noted, by }) => by.note(noted)))
        const latest = (quotes: NotedQuote[]) => Math.max(...quotes.map(({ expiresAtMs }) => expiresAtMs))
        const all = notes.map(({ noted }) => noted)
        for (const toAmount of [undefined, '289.645', '289.646']) {
          const meant = all.filter((noted) => toAmount === undefined || noted.toValue === toAmount)
          const asked = order({ pairId, fromAmount: '0.1', toAmount })
          const othersKnown = await judge.recall(asked, orderer)
          const verdict = decide(judge.ledger, asked, { ...orderer, marginMs: 0, othersKnown })
          // An amount of none of them says no more than that the order is for one of its client's quotes.
          expect(verdict).toMatchObject({
            quote: { expiresAtMs: latest(meant.length === 0 ? all : meant) },
          })
        }
      }),
      { numRuns: 40 },
    )
  })

  it('keeps the latest expiry of one id', async () => {
    const { here, there } = await open()
    const [a, b, judge] = [replicaOn(here), replicaOn(there), replicaOn(there)]
    await a.note(quote({ id: 'same', expiresAtMs: expiry }))
    await b.note(quote({ id: 'same', expiresAtMs: nowMs - 1 }))
    expect(await judge.judge(order({ quoteId: 'same' }))).toMatchObject({ state: 'live' })
  })
}

describe('the shared ledger on one server', { tags: ['redis-server'] }, () => {
  let server: ValkeyServer
  beforeAll(async () => {
    server = await startValkey()
  })
  afterAll(() => server.end())

  async function open() {
    await server.ask('FLUSHALL')
    return { here: await storeAt(server.url, { keyPrefix }), there: await storeAt(server.url, { keyPrefix }) }
  }
  const ledgerKeys = async () => (await server.ask('KEYS', `${keyPrefix}ledger:*`)) as string[]
  const lifeOf = async (key: string) => Number(await server.ask('PTTL', key))

  describeSharing(open)

  it('identifies clients neither in keys nor in values, and keeps each key as long as the quote is remembered', async () => {
    const { here } = await open()
    await replicaOn(here).note(quote({ id: 'secret-id', application: 'wallet' }))
    const keys = await ledgerKeys()
    expect(keys).toHaveLength(4)
    for (const key of keys) expect(key).toMatch(/^test:ledger:[\w-]{22}$/)
    for (const life of await Promise.all(keys.map(lifeOf))) {
      expect(life).toBeLessThanOrEqual(retentionMs + 30_000)
      expect(life).toBeGreaterThan(retentionMs + 10_000)
    }
  })

  it('notes and finds a quote while our wall clock is a year behind, and keeps no key as long', async () => {
    const { here, there } = await open()
    const [a, b] = [replicaOn(here, { wallMs: nowMs - 365 * 86_400_000 }), replicaOn(there)]
    const live = quote()
    await a.note(live)
    const lives = await Promise.all((await ledgerKeys()).map(lifeOf))
    expect(lives).toHaveLength(4)
    expect(Math.min(...lives)).toBeGreaterThan(0)
    expect(Math.max(...lives)).toBeLessThanOrEqual(retentionMs + 2 * 86_400_000)
    const asked = order({ quoteId: live.id })
    expect(await b.judge(asked)).toEqual({ othersKnown: true, state: 'live', id: live.id })
  })

  it('never shortens the life of a key that a later quote needs', async () => {
    const { here } = await open()
    const a = replicaOn(here)
    await a.note(quote({ expiresAtMs: expiry + 60_000 }))
    // Another quote, though its amount is filed under the same double.
    const value = '0.10000000000000000001'
    await a.note(quote({ expiresAtMs: expiry, fromValue: value, requestedAmount: value }))
    const lives = await Promise.all((await ledgerKeys()).map(lifeOf))
    // Three keys of the terms, and that of the first id. The second id's key lives shorter.
    expect(lives.filter((life) => life > retentionMs + 60_000)).toHaveLength(4)
    expect(lives).toHaveLength(5)
  })

  it('keeps a bounded number of quotes under one key, and drops those that expire first', async () => {
    const { here, there } = await open()
    const a = replicaOn(here)
    // All of them share one double.
    const amount = (index: number) => `0.1000000000000000000${String(index).padStart(4, '0')}`
    for (let index = 100; index < 200; index += 1) {
      const value = amount(index)
      await a.note(quote({ fromValue: value, requestedAmount: value, expiresAtMs: expiry + index }))
    }
    const sizes = await Promise.all(
      (await ledgerKeys()).map(async (key) => Number(await server.ask('HLEN', key))),
    )
    expect(Math.max(...sizes)).toBe(64)
    const b = replicaOn(there)
    const asked = (index: number) => order({ pairId: 'ETH_USDC', fromAmount: amount(index) })
    expect(await b.judge(asked(199))).toMatchObject({ state: 'live' })
    expect(await b.judge(asked(100))).toMatchObject({ state: 'unknown' })
  })

  it('drops what is past its retention when the next quote of the key comes', async () => {
    const { here } = await open()
    const a = replicaOn(here)
    const value = '0.10000000000000000001'
    await a.note(quote())
    a.advance(retentionMs + 30_000)
    await a.note(
      quote({ fromValue: value, requestedAmount: value, expiresAtMs: expiry + retentionMs + 30_000 }),
    )
    const sizes = await Promise.all(
      (await ledgerKeys()).map(async (key) => Number(await server.ask('HLEN', key))),
    )
    expect(sizes.every((size) => size === 1)).toBe(true)
  })

  it('does not write a quote again that all replicas know', async () => {
    const { here } = await open()
    const counted: string[] = []
    const counting: SharedStore = {
      ...here,
      run: (operation, commands) => {
        counted.push(operation)
        return here.run(operation, commands)
      },
    }
    const [a, b] = [replicaOn(counting), replicaOn(counting)]
    const known = quote()
    await a.note(known)
    await a.note({ ...known })
    expect(counted).toEqual(Array(4).fill('ledger-note'))
    expect(await b.judge(order({ ...terms, quoteId: known.id }))).toMatchObject({ state: 'live' })
    // From the provider too; what is left is as much as the store said, or more.
    await b.note({ ...known, refusedFromMs: known.refusedFromMs + 1 })
    // A replica that starts also looks whether another one is filling the store.
    expect(counted.slice(4)).toEqual(['ledger-refill', 'ledger-recall'])
  })

  it('notes a quote in memory once, however often orders name it after its expiry', async () => {
    const { here, there } = await open()
    const [a, b] = [replicaOn(here), replicaOn(there)]
    const over = quote({ expiresAtMs: nowMs - 960_000 })
    await a.note(over)
    const other = quote()
    for (let turn = 0; turn < 20; turn += 1) {
      expect(await b.judge(order({ quoteId: over.id }))).toMatchObject({ state: 'expired' })
      b.ledger.note({ ...other })
    }
    expect(b.ledger.size).toBe(2)
  })

  it.each([
    ['no note', 'garbage'],
    ['nothing', ''],
    ['an expiry alone', `${expiry - 60_000}`],
    ['no list', `${expiry - 60_000} ${nowMs} {"id":"x"}`],
    ['too short a list', `${expiry - 60_000} ${nowMs} ["x"]`],
    ['numbers for texts', `${expiry - 60_000} ${nowMs} [1,2,3,4,5,6,7,8,9,0]`],
    ['invalid amounts', `${expiry - 60_000} ${nowMs} ["x","ETH_USDC","a","b","c","wallet",1,"k","own",0]`],
    ['the note of other terms', `${expiry - 60_000} ${otherNote}`],
    ['an expiry that never comes', `9999999999999999 ${otherNote.replace('BTC', 'ETH')}`],
    [
      'a note without the time of the store',
      `${expiry - 60_000} ${otherNote.replace('BTC', 'ETH').slice(14)}`,
    ],
    ['a megabyte', `${expiry - 60_000} ${nowMs} ["${'x'.repeat(1_000_000)}"]`],
    ['broken text', Buffer.from([0x31, 0x20, 0xff, 0xfe]).toString('latin1')],
  ])('ignores %s under its keys, and finds the live quote next to it', async (_what, garbage) => {
    const { here, there } = await open()
    await replicaOn(here).note(quote())
    for (const key of await ledgerKeys()) await server.ask('HSET', key, 'planted', garbage)
    expect(await replicaOn(there).judge(byTerms)).toMatchObject({ othersKnown: true, state: 'live' })
    // And the script that meets it goes on.
    const later = quote({ expiresAtMs: expiry + 1 })
    await replicaOn(here).note(later)
    expect(await replicaOn(there).judge(byTerms)).toMatchObject({ id: later.id })
  })

  it('ignores a note under a key where it does not belong', async () => {
    const { here, there } = await open()
    await replicaOn(here).note(quote())
    const planted = `${nowMs - 1} ${otherNote}`
    for (const key of await ledgerKeys()) await server.ask('HSET', key, 'planted', planted)
    const b = replicaOn(there)
    expect(await b.judge(byTerms)).toMatchObject({ state: 'live' })
    expect(await b.judge(order({ ...terms, pairId: 'BTC_USDC' }))).toMatchObject({ state: 'unknown' })
    expect(b.ledger.size).toBe(1)
  })

  it('ignores a key of another type', async () => {
    const { here, there } = await open()
    await replicaOn(here).note(quote())
    for (const key of await ledgerKeys()) await server.ask('SET', key, 'text')
    expect(await replicaOn(there).judge(byTerms)).toEqual({ othersKnown: false, state: 'unknown' })
  })
})

describe('the shared ledger on a Cluster of three', { tags: ['redis-server'] }, () => {
  let cluster: ValkeyCluster
  beforeAll(async () => {
    cluster = await startValkeyCluster()
  })
  afterAll(async () => {
    for (const server of cluster.servers) await server.end()
  })

  describeSharing(async () => {
    for (const server of cluster.servers) await server.ask('FLUSHALL')
    const open = () => storeAt(cluster.url, { keyPrefix })
    return { here: await open(), there: await open() }
  })
})

describe('when the store fails, the shared ledger', { tags: ['redis-server'] }, () => {
  it('reports that others may know more, and uses its own memory', async () => {
    const server = await valkey()
    const [here, there] = [await storeAt(server.url), await storeAt(server.url)]
    const [a, b] = [replicaOn(here), replicaOn(there)]
    const [seenHere, seenThere] = [quote({ pairId: 'A_B' }), quote()]
    await a.note(seenHere)
    await b.note(seenThere)
    await server.kill()
    expect(await a.judge(order({ quoteId: seenHere.id }))).toMatchObject({
      othersKnown: false,
      state: 'live',
    })
    expect(await a.judge(order({ quoteId: seenThere.id }))).toEqual({ othersKnown: false, state: 'unknown' })
    // Nothing to ask for, so nothing is missing.
    expect(await a.recall(order({ pairId: 'ETH_USDC' }), orderer)).toBe(true)
    a.advance(pastMs)
    expect(await a.judge(order({ quoteId: seenHere.id }))).toMatchObject({ state: 'expired' })
  })

  it('writes to an empty store all quotes that orders may still use, noted before or during the outage', async () => {
    const server = await valkey()
    const [here, there] = [await storeAt(server.url), await storeAt(server.url)]
    const [a, b] = [replicaOn(here), replicaOn(there)]
    const [before, during, over] = [
      quote({ pairId: 'A_B' }),
      quote(),
      quote({ pairId: 'C_D', expiresAtMs: nowMs }),
    ]
    for (const noted of [before, over]) await a.note(noted)
    await server.kill()
    await a.note(during)
    await server.restartEmpty()
    await until(() => here.up && there.up, 'both to have the store again')
    const untilJudged = async (id: string, state: string) => {
      const deadline = performance.now() + 15_000
      while ((await b.judge(order({ quoteId: id }))).state !== state) {
        if (performance.now() > deadline) throw new Error('never told')
        await pause(5)
      }
    }
    for (const { id } of [before, during]) await untilJudged(id, 'live')
    // After the live quotes come the expired ones, so that orders for them are refused as before.
    await untilJudged(over.id, 'expired')
  })

  it('treats the store as incomplete for a while after its return, and as complete at startup', async () => {
    const server = await valkey()
    const store = await storeAt(server.url, { mayBeDown: true })
    const a = replicaOn(store, { settleMs: 600_000 })
    await until(() => store.up, 'the store')
    await a.note(quote())
    expect(await a.recall(byTerms, orderer)).toBe(true)
    await server.restartEmpty()
    await until(() => !store.up, 'the loss to be seen')
    await until(() => store.up, 'the store again')
    expect(await a.recall(byTerms, orderer)).toBe(false)
  })
})
