import { strict as assert } from 'node:assert'
import { createPartition } from '../../src/client/partition.ts'
import type { Lookup } from '../../src/events.ts'
import { QuoteStage } from '../../test/support/clients/quote-stage.ts'
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

/** The default of QUOTE_CACHE_ENTRIES. */
const cacheEntries = 100_000

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

/** The quote route of a gateway, with its cache. */
function createReplica(parts: {
  time: VirtualTime
  provider: SimulatedProvider
  store: SharedStore | undefined
  settings: Settings
}): Replica {
  const { time, provider, store, settings } = parts
  const lookups: Totals['lookups'] = { hit: 0, shared: 0, miss: 0, expired: 0, collapsed: 0, bypass: 0 }
  const counts = { requests: 0, refreshes: 0, minLifeLeftMs: Number.POSITIVE_INFINITY }
  const failures: unknown[] = []
  let answered = 0

  const partitionOf = createPartition({ mode: settings.mode, placeHeaders: ['cf-ipcountry'] })
  /** What each request asks for, and on behalf of which partition. */
  const asked: { pair: string; amount: string; mark: string }[] = []
  const stage = new QuoteStage({
    clock: time,
    partitionOf,
    quotes: { cacheEntries, refreshAheadMs: settings.refreshAheadMs },
    sharedQuotes: store,
    listener: {
      quoteLookedUp(result) {
        lookups[result] += 1
      },
      quoteNotKept: (reason) => assert.fail(`a quote was not kept: ${reason}`),
      quoteRefreshed(outcome) {
        counts.refreshes += 1
        if (outcome === 'failed') failures.push(new Error('a refresh failed'))
      },
    },
    onCall(call) {
      const order = asked[Number(call.by)]
      assert.ok(order !== undefined, 'a call is on behalf of a request')
      void provider.quote(order).then(({ body, rawHeaders }) => call.answer(body, { headers: rawHeaders }))
    },
  })

  function checkAnswered(body: string, mark: string): void {
    answered += 1
    const quote = JSON.parse(body) as { id: string; expiry: number }
    // The simulated provider uses our clock, so the check needs no estimate of the provider's time.
    const lifeLeftMs = quote.expiry - time.nowMs()
    assert.ok(lifeLeftMs > 0, `a quote was served ${-lifeLeftMs} ms past its expiry`)
    assert.ok(quote.id.startsWith(`${mark}#`), 'a quote was served to another partition')
    counts.minLifeLeftMs = Math.min(counts.minLifeLeftMs, lifeLeftMs)
  }

  return {
    ask({ client: { address, place }, pair, amount }) {
      counts.requests += 1
      const headers = ['App-Name', 'wallet', 'cf-ipcountry', place]
      const mark = `${pair} ${amount} ${partitionOf({ address, peerTrusted: true }, headers)}`
      asked.push({ pair, amount, mark })
      stage
        .ask({ address, peerTrusted: true, pair, amount, headers })
        .answer.then(({ body }) => checkAnswered(body, mark))
        .catch((error: unknown) => failures.push(error))
    },
    totals() {
      if (failures.length > 0) throw failures[0]
      assert.equal(answered, counts.requests, 'every request is answered')
      return { ...counts, waited: counts.requests - lookups.hit, lookups }
    },
  }
}

function checkTotals(totals: Omit<Totals, 'upstreamCalls'>, sent: number, calls: number): void {
  const { hit, shared, miss, expired, collapsed, bypass } = totals.lookups
  assert.equal(totals.requests, sent, 'every request of the script is sent')
  assert.equal(hit + shared + miss + expired + collapsed, sent, 'every request is one lookup')
  assert.equal(bypass, 0, 'every request may share')
  const causes = shared + miss + expired + totals.refreshes
  assert.equal(causes, calls + totals.fromStore, 'a call has one cause')
}
