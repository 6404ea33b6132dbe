import { setTimeout } from 'node:timers/promises'
import { type Clock, lookAt } from '../clock.ts'
import type { NotedQuote } from '../orders/noted-quote.ts'
import { orderLeftMs } from '../quotes/ends.ts'
import type { SharedStore } from './store.ts'

export interface RefillOptions {
  sharedStore: Pick<SharedStore, 'keyPrefix' | 'run'>
  clock: Clock
  /** Writes a quote to the store. False: the store failed. */
  write(quote: NotedQuote): Promise<boolean>
}

/**
 * Fills a store again that may have come back empty: each replica writes what it gave out. While one does, a mark in the
 * store says so to the others, however long it takes.
 */
export interface Refill {
  /** False: some replica may still be writing again what the store lost. */
  readonly settled: boolean
  /** Remembers a quote that this replica gave out. */
  add(quote: NotedQuote): void
  /** Remembers what an earlier process gave out. */
  addOlder(quotes: readonly NotedQuote[]): void
  /** The store is there. For `settleMs` other replicas may not have found it, and so have set no mark. */
  begin(settleMs: number): Promise<void>
  /** Looks whether the store has settled, unless that is known. */
  look(): Promise<void>
}

const maxGiven = 10_000
/** Quotes written at a time. So few that the calls of requests do not wait for them. */
const batchSize = 16
/** A store that refuses some writes stays up. What it goes on refusing is given up. */
const maxTries = 4
const retryAfterMs = 250
const markEveryMs = 1_000
/** Longer than two marks may be apart. So long nothing is refused by terms after a replica died that was writing. */
const markLifeMs = 3_000

export function createRefill({ sharedStore, clock, write }: RefillOptions): Refill {
  const markKey = `${sharedStore.keyPrefix}refilling`
  /** The quotes that this replica gave out last, oldest first. */
  const given = new Set<NotedQuote>()
  /** The pass under way over the quotes given out; undefined: all of them were written. */
  let pass: symbol | undefined
  /** Of the store's last return. At the start too, another replica may be filling the store. */
  let unsettled: { readonly untilMs: number } | undefined = { untilMs: Number.NEGATIVE_INFINITY }

  function mark(): void {
    void sharedStore.run('ledger-refill', (client) => client.set(markKey, '1', 'PX', markLifeMs))
  }

  /** Live quotes first, then the newest. */
  async function rewrite(): Promise<void> {
    const own = Symbol('pass')
    pass = own
    const newest = [...given].reverse()
    const now = lookAt(clock)
    const isLive = (quote: NotedQuote) => orderLeftMs(quote, now) > 0
    const quotes = [...newest.filter(isLive), ...newest.filter((quote) => !isLive(quote))]
    for (let at = 0; at < quotes.length; at += batchSize) {
      await writeAll(quotes.slice(at, at + batchSize))
      // The store was down again, and its return began another pass.
      if (pass !== own) return
    }
    pass = undefined
  }

  async function writeAll(quotes: readonly NotedQuote[]): Promise<void> {
    let left = quotes
    for (let tries = 0; left.length > 0 && tries < maxTries; tries += 1) {
      if (tries > 0) await setTimeout(retryAfterMs, undefined, { ref: false })
      const written = await Promise.all(left.map((quote) => write(quote)))
      left = left.filter((_, index) => !written[index])
    }
  }

  return {
    get settled() {
      return unsettled === undefined
    },

    add(quote) {
      given.add(quote)
      const [oldest] = given
      if (given.size > maxGiven && oldest !== undefined) given.delete(oldest)
    },

    addOlder(quotes) {
      const all = [...quotes, ...given].slice(-maxGiven)
      given.clear()
      for (const quote of all) given.add(quote)
    },

    async begin(settleMs) {
      unsettled = { untilMs: performance.now() + settleMs }
      if (given.size > 0) mark()
      const marking = setInterval(mark, markEveryMs).unref()
      try {
        await rewrite()
      } finally {
        clearInterval(marking)
      }
    },

    async look() {
      const current = unsettled
      if (current === undefined || pass !== undefined || performance.now() < current.untilMs) return
      const marks = await sharedStore.run('ledger-refill', (client) => client.exists(markKey))
      // The store may have gone and come back meanwhile.
      if (marks === 0 && unsettled === current) unsettled = undefined
    },
  }
}
