import { strict as assert } from 'node:assert'
import { createPartition } from '../../src/client/partition.ts'
import { lookAt } from '../../src/clock.ts'
import { Events, type Lookup } from '../../src/events.ts'
import { Ends } from '../../src/quotes/ends.ts'
import type { QuoteSource } from '../../src/quotes/flight.ts'
import { createMemoryQuoteStore } from '../../src/quotes/memory-quote-store.ts'
import { createQuoteReader, type QuoteAnswer } from '../../src/quotes/quote-answer.ts'
import { createQuoteCache, type Served } from '../../src/quotes/quote-cache.ts'
import { createQuoteKey, type QuoteRequest } from '../../src/quotes/quote-key.ts'
import { createProvider, type SimulatedProvider } from './provider.ts'
import { createRandom, drawBetween } from './random.ts'
import { createSharedStore, type SharedStore } from './shared-store.ts'
import { createTraffic, type Scenario, type SimulatedRequest } from './traffic.ts'
import { createVirtualTime, type VirtualTime } from './virtual-time.ts'

export type Mode = Parameters<typeof createPartition>[0]['mode']

/** From the one that shares least to the one that shares most. */
export const modes: readonly Mode[] = ['ip', 'header', 'none']

export interface Settings {
  mode: Mode
  refreshAheadMs: number
  /** Each request goes to a random one; 1 by default. */
  replicas?: number
  /** Whether they share a store, as with VALKEY_URL. */
  shared?: boolean
}

export interface Totals {
  requests: number
  upstreamCalls: number
  lookups: Record<Lookup, number>
  refreshes: number
  /** Look-ups in the shared store that saved an upstream call. */
  fromStore: number
  /** Requests that memory could not answer at once. */
  waited: number
  /** The shortest time to expiry of any quote that was served. */
  minLifeLeftMs: number
}

/** The defaults of QUOTE_CACHE_ENTRIES, QUOTE_CACHE_BYTES and QUOTE_MAX_BYTES. */
const bounds = { maxEntries: 100_000, maxBytes: 67_108_864 }
const maxQuoteBytes = 16_384

// Well above 0, because lru-cache reads 0 as "no time".
const startMs = Date.UTC(2026, 0, 1)

/** Duration of a look-up in the shared store. */
export const storeLatencyMs = 1

/** Sends a scenario's traffic through the caches of its replicas and counts; throws if they break a promise. */
export async function simulate(scenario: Scenario, settings: Settings): Promise<Totals> {
  const { replicas: count = 1, shared = false, refreshAheadMs } = settings
  const time = createVirtualTime(startMs)
  const provider = createProvider({
    time,
    latencyMs: scenario.upstreamLatencyMs,
    quoteLifeMs: scenario.quoteLifeMs,
  })
  const store = shared ? createSharedStore({ time, latencyMs: storeLatencyMs, refreshAheadMs }) : undefined
  const replicas = Array.from({ length: count }, () => createReplica({ time, provider, store, settings }))
  // A generator of its own, so that the traffic is the same for any number of replicas.
  const random = createRandom(scenario.seed + 1)
  const traffic = createTraffic(scenario)
  for (const request of traffic) {
    const replica = replicas[drawBetween(random, [0, count - 1])]
    time.at(startMs + request.atMs, () => replica?.ask(request))
  }
  await time.run()

  const totals = { ...sumOf(replicas.map((replica) => replica.totals())), fromStore: store?.found ?? 0 }
  checkTotals(totals, traffic.length, provider.calls)
  return { ...totals, upstreamCalls: provider.calls }
}

type ReplicaTotals = Omit<Totals, 'upstreamCalls' | 'fromStore'>

function sumOf(parts: readonly ReplicaTotals[]): ReplicaTotals {
  const sum = (read: (part: ReplicaTotals) => number) => parts.reduce((total, part) => total + read(part), 0)
  return {
    requests: sum(({ requests }) => requests),
    lookups: sumOfLookups(parts.map(({ lookups }) => lookups)),
    refreshes: sum(({ refreshes }) => refreshes),
    waited: sum(({ waited }) => waited),
    minLifeLeftMs: Math.min(...parts.map(({ minLifeLeftMs }) => minLifeLeftMs)),
  }
}

function sumOfLookups(parts: readonly Totals['lookups'][]): Totals['lookups'] {
  const [first, ...others] = parts
  assert.ok(first !== undefined, 'there is a replica')
  const total = { ...first }
  for (const part of others) {
    for (const result of Object.keys(total) as Lookup[]) total[result] += part[result]
  }
  return total
}

interface Replica {
  ask(request: SimulatedRequest): void
  /** Throws the first failure, if there was one. */
  totals(): ReplicaTotals
}

/** The parts of a gateway's quote route, put together as gateway.ts does it. */
function createReplica(parts: {
  time: VirtualTime
  provider: SimulatedProvider
  store: SharedStore | undefined
  settings: Settings
}): Replica {
  const { time, provider, store, settings } = parts
  const lookups: Totals['lookups'] = { hit: 0, shared: 0, miss: 0, expired: 0, collapsed: 0, bypass: 0 }
  const counts = { requests: 0, refreshes: 0, waited: 0, minLifeLeftMs: Number.POSITIVE_INFINITY }
  const failures: unknown[] = []
  let answered = 0

  const partitionOf = createPartition({ mode: settings.mode, placeHeaders: ['cf-ipcountry'] })
  const keyOf = createQuoteKey({ salt: 'simulation' })
  const events = new Events([
    {
      quoteLookedUp(result) {
        lookups[result] += 1
      },
      quoteNotKept: (reason) => assert.fail(`a quote was not kept: ${reason}`),
      quoteRefreshed(outcome) {
        counts.refreshes += 1
        if (outcome === 'failed') failures.push(new Error('a refresh failed'))
      },
    },
  ])
  const readAnswer = createQuoteReader({
    clock: time,
    ends: new Ends(events),
    maxBytes: maxQuoteBytes,
    obeyCacheControl: false,
    recorder: { record() {}, recordFound() {}, async recordUnreadable() {} },
    events,
  })
  const cache = createQuoteCache({
    store: createMemoryQuoteStore({ ...bounds, clock: time, events }),
    clock: time,
    minValidityMs: 0,
    refreshAheadMs: settings.refreshAheadMs,
    events,
  })

  function callFor(request: QuoteRequest): Promise<QuoteAnswer> {
    const answer = provider.quote({
      pair: request.pair,
      amount: request.canonicalAmount,
      mark: markOf(request),
    })
    return readAnswer(answer, request)
  }

  function checkServed(quote: { id: string; expiresAtMs: number }, request: QuoteRequest): void {
    answered += 1
    // The simulated provider uses our clock, so the check needs no estimate of the provider's time.
    const lifeLeftMs = quote.expiresAtMs - time.nowMs()
    assert.ok(lifeLeftMs > 0, `a quote was served ${-lifeLeftMs} ms past its expiry`)
    assert.ok(quote.id.startsWith(`${markOf(request)}#`), 'a quote was served to another partition')
    counts.minLifeLeftMs = Math.min(counts.minLifeLeftMs, lifeLeftMs)
  }

  return {
    ask({ client, pair, amount }) {
      counts.requests += 1
      const { address, place } = client
      const partition = partitionOf({ address, peerTrusted: true }, ['cf-ipcountry', place])
      assert.ok(partition !== undefined, 'a client with an address has a partition')
      const request = quoteRequest(pair, amount, partition)
      const key = keyOf(request)
      const upstreamCall = () => callFor(request)
      const call = store === undefined ? upstreamCall : () => store.before(key, upstreamCall)
      // First memory, then the call, as in the gateway.
      const asker = { target: request.target, address }
      const source: QuoteSource = { asker, call, refresh: call, isRefused: false, found() {} }
      const live = cache.live(key, lookAt(time))
      if (live !== undefined) {
        if (cache.isRefreshDue(key, live)) cache.refresh(key, live, source)
        checkServed(live, request)
        return
      }
      counts.waited += 1
      cache
        .getOrFetch(key, source)
        .served.then((served) => checkServed(servedQuote(served), request))
        .catch((error: unknown) => failures.push(error))
    },
    totals() {
      if (failures.length > 0) throw failures[0]
      assert.equal(answered, counts.requests, 'every request is answered')
      return { ...counts, lookups }
    },
  }
}

/** One backend asks for all clients, so its own headers are the same on every request. */
const keyedHeaders: QuoteRequest['keyedHeaders'] = [
  ['app-name', 'wallet'],
  ['app-version', '1.0.0'],
  ['user-agent', 'wallet-backend/1.0'],
  ['authorization', undefined],
]

function quoteRequest(pair: string, amount: string, partition: string): QuoteRequest {
  const target = `/v3/pairs/${pair}/quotes?amount=${amount}`
  return { pair, canonicalAmount: amount, keyedHeaders, partition, query: '', target }
}

function markOf({ pair, canonicalAmount, partition }: QuoteRequest): string {
  return `${pair} ${canonicalAmount} ${partition}`
}

function servedQuote(served: Served): { id: string; expiresAtMs: number } {
  if (served.how === 'hit') return served.quote
  const { stored } = served.answer
  assert.ok(stored !== undefined, 'the simulated provider answers with quotes only')
  return stored
}

function checkTotals(totals: Omit<Totals, 'upstreamCalls'>, sent: number, calls: number): void {
  const { hit, miss, expired, collapsed, bypass } = totals.lookups
  assert.equal(totals.requests, sent, 'every request of the script is sent')
  assert.equal(hit + miss + expired + collapsed, sent, 'every request is one lookup')
  assert.equal(bypass, 0, 'every request may share')
  assert.equal(totals.waited, sent - hit, 'only a hit is answered at once')
  assert.equal(miss + expired + totals.refreshes, calls + totals.fromStore, 'a call has one cause')
}
