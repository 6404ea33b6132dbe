import { setTimeout } from 'node:timers/promises'
import { type Clock, steadyMsOf } from '../clock.ts'
import type { NotedQuote, QuoteLedger, SharedLedger } from '../orders/ledger.ts'
import type { ProviderClock } from '../quotes/provider-clock.ts'
import { createLedgerKeys, decodeClockLag, decodeNote, encodeNote, maxLifeMs } from './ledger-codec.ts'
import type { SharedStore } from './store.ts'
import { maxFields, noteScript, recallScript } from './valkey/ledger-scripts.ts'

export interface SharedLedgerOptions {
  sharedStore: Pick<SharedStore, 'keyPrefix' | 'salt' | 'run' | 'onUp'>
  ledger: Pick<QuoteLedger, 'note' | 'knows'>
  clock: Clock
  providerClock: Pick<ProviderClock, 'earliestMs' | 'orderLeftMs' | 'isKnown' | 'compare' | 'hearsay'>
  /** How long past its expiry a quote is remembered. */
  retentionMs: number
  /** How long after the store's return `recall` says that there may be more quotes. */
  settleMs?: number
}

/** Each replica finds the store within two seconds of its return, and rewrites its live quotes in less than that. */
const defaultSettleMs = 5_000
const maxGiven = 10_000
/** Quotes rewritten at a time. So few that the calls of requests do not wait for them. */
const rewriteBatch = 16
/** A store that refuses some writes stays up. What it goes on refusing is given up. */
const maxTries = 4
const retryAfterMs = 250

export function createSharedLedger(options: SharedLedgerOptions): SharedLedger {
  const { sharedStore, ledger, clock, providerClock, retentionMs, settleMs = defaultSettleMs } = options
  const keys = createLedgerKeys(sharedStore)
  /** The quotes that this replica gave out last, oldest first. A store that restarts has lost them. */
  const given = new Set<NotedQuote>()
  let inUse = false
  let settledAtMs = Number.NEGATIVE_INFINITY
  /** The pass under way over the quotes given out; undefined: all of them were written. */
  let pass: symbol | undefined

  async function write(quote: NotedQuote): Promise<boolean> {
    const earliestMs = providerClock.earliestMs()
    const note = encodeNote(quote, steadyMsOf(clock))
    const isTimeKnown = providerClock.isKnown && Number.isFinite(earliestMs)
    const providerNow = isTimeKnown ? Math.floor(earliestMs) : ''
    // After our clock was set back, earliestMs can be -Infinity, which the store does not take.
    const expiredByMs = Math.max(0, Math.floor(earliestMs - retentionMs))
    const keepMs = retentionMs + Math.min(Math.ceil(quote.expiresAtMs - earliestMs), maxLifeMs)
    if (keepMs <= 0) return true
    const writes = keys.fieldsOf(quote).map(({ key, field }) => {
      const parameters = [field, note, quote.expiresAtMs, expiredByMs, keepMs, maxFields, providerNow]
      return sharedStore.run('ledger-note', (client) => noteScript(client, key, parameters))
    })
    const written = await Promise.all(writes)
    inUse = true
    return written.every((answer) => answer !== undefined)
  }

  function noteGiven(quote: NotedQuote): void {
    ledger.note(quote)
    given.add(quote)
    const [oldest] = given
    if (given.size > maxGiven && oldest !== undefined) given.delete(oldest)
  }

  /** Writes again what this replica gave out, for a store that may have lost it: live quotes first, then the newest. */
  async function rewrite(): Promise<void> {
    const own = Symbol('pass')
    pass = own
    const newest = [...given].reverse()
    const isLive = (quote: NotedQuote) => providerClock.orderLeftMs(quote) > 0
    const quotes = [...newest.filter(isLive), ...newest.filter((quote) => !isLive(quote))]
    for (let at = 0; at < quotes.length; at += rewriteBatch) {
      await writeAll(quotes.slice(at, at + rewriteBatch))
      // The store was down again, and its return began another pass.
      if (pass !== own) return
    }
    pass = undefined
  }

  async function writeAll(quotes: readonly NotedQuote[]): Promise<void> {
    let left = quotes
    for (let tries = 0; left.length > 0 && tries < maxTries; tries += 1) {
      if (tries > 0) await setTimeout(retryAfterMs, undefined, { ref: false })
      const written = await Promise.all(left.map(write))
      left = left.filter((_, index) => !written[index])
    }
  }

  /** Notes here what the store has under one key. False: the store failed. */
  async function recallKey(key: string): Promise<boolean> {
    const answer = await sharedStore.run('ledger-recall', (client) => recallScript(client, key, []))
    inUse = true
    if (answer === undefined) return false
    const [storeNowMs, bytes] = answer
    const notes = bytes.map(String)
    const nowMs = clock.nowMs()
    const storeAheadMs = storeNowMs - nowMs
    providerClock.compare(storeAheadMs)
    const lagMs = Math.max(...notes.map(decodeClockLag), 0)
    // The lag was measured by the clock of this key's node. The nodes of a Cluster have different clocks.
    if (lagMs > 0) providerClock.hearsay(storeAheadMs - lagMs)
    const readAt = { storeNowMs, nowMs, steadyNowMs: steadyMsOf(clock) }
    for (const note of notes) {
      const quote = decodeNote(note, readAt)
      if (quote === undefined || ledger.knows(quote)) continue
      if (keys.fieldsOf(quote).some((field) => field.key === key)) ledger.note(quote)
    }
    return true
  }

  sharedStore.onUp(() => {
    // When the store is up for the first time and nothing was noted or recalled yet, no quote can have been lost.
    if (inUse) settledAtMs = performance.now() + settleMs
    inUse = true
    void rewrite()
  })

  return {
    async note(quote) {
      // The provider gave the same quote again, so the store has it.
      if (ledger.knows(quote)) return
      noteGiven(quote)
      await write(quote)
    },

    noteHere(quote) {
      if (!ledger.knows(quote)) noteGiven(quote)
    },

    async recall(order, orderer) {
      const orderKeys = keys.keysOf(order, orderer)
      if (orderKeys.length === 0) return true
      const answered = await Promise.all(orderKeys.map(recallKey))
      return !answered.includes(false) && pass === undefined && performance.now() >= settledAtMs
    },
  }
}
