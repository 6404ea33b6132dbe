import type { Clock } from '../clock.ts'
import type { NotedQuote, QuoteLedger, QuoteLedgerOptions, SharedLedger } from '../orders/ledger.ts'
import type { ProviderClock } from '../quotes/provider-clock.ts'
import { isExpired } from '../quotes/quote.ts'
import { createLedgerPlaces, decodeBehind, decodeNote, encodeNote, longestLifeMs } from './ledger-codec.ts'
import type { SharedStore } from './store.ts'
import { fieldsMost, noteScript, recallScript } from './valkey/ledger-scripts.ts'

export interface SharedLedgerOptions extends Omit<QuoteLedgerOptions, 'entries'> {
  sharedStore: Pick<SharedStore, 'keyPrefix' | 'salt' | 'run' | 'onUp'>
  ledger: QuoteLedger
  clock: Clock
  providerClock: Pick<ProviderClock, 'earliestMs' | 'isKnown' | 'compare' | 'hearsay'>
  /** How long after its return the store is not taken to know everything. */
  settleMs?: number
}

/** Each replica finds the store again within two seconds of its return, and needs less to write what lives. */
const settleMsByDefault = 5_000
const liveMost = 10_000
/** So few at a time that nobody else's call waits for them. */
const writtenAgainAtOnce = 16

export function createSharedLedger(options: SharedLedgerOptions): SharedLedger {
  const { sharedStore, ledger, clock, providerClock, retentionMs, settleMs = settleMsByDefault } = options
  const termsMs = Math.min(options.termsMs, retentionMs)
  const places = createLedgerPlaces(sharedStore)
  /** What this replica gave out and an order may still use, the oldest first: a store that restarts has lost it. */
  const live = new Set<NotedQuote>()
  let inUse = false
  let settledAtMs = Number.NEGATIVE_INFINITY
  let writingAgain = false

  async function write(quote: NotedQuote): Promise<boolean> {
    const earliestMs = providerClock.earliestMs()
    const note = encodeNote(quote)
    const isTold = providerClock.isKnown && Number.isFinite(earliestMs)
    const providerNow = isTold ? Math.floor(earliestMs) : ''
    const writes = places.ofQuote(quote).map(({ key, field, foundBy }) => {
      const foundForMs = foundBy === 'id' ? retentionMs : termsMs
      // Where our clock was set back nothing is known of the time, and the store takes no infinite one.
      const overByMs = Math.max(0, Math.floor(earliestMs - foundForMs))
      const keepMs = foundForMs + Math.min(Math.ceil(quote.expiresAtMs - earliestMs), longestLifeMs)
      if (keepMs <= 0) return true
      const parameters = [field, note, quote.expiresAtMs, overByMs, keepMs, fieldsMost, providerNow]
      return sharedStore.run('ledger-note', (client) => noteScript(client, key, parameters))
    })
    const written = await Promise.all(writes)
    inUse = true
    return written.every((answer) => answer !== undefined)
  }

  function remember(quote: NotedQuote): void {
    live.add(quote)
    for (const oldest of live) {
      if (live.size <= liveMost && !isExpired(oldest.expiresAtMs, providerClock.earliestMs())) return
      live.delete(oldest)
    }
  }

  async function writeAgain(): Promise<void> {
    if (writingAgain) return
    writingAgain = true
    const quotes = [...live].filter(({ expiresAtMs }) => !isExpired(expiresAtMs, providerClock.earliestMs()))
    for (let at = 0; at < quotes.length; at += writtenAgainAtOnce) {
      const written = await Promise.all(quotes.slice(at, at + writtenAgainAtOnce).map(write))
      // Down again: its next return begins anew.
      if (written.includes(false)) break
    }
    writingAgain = false
  }

  async function recallFrom(key: string): Promise<boolean> {
    const answer = await sharedStore.run('ledger-recall', (client) => recallScript(client, key, []))
    inUse = true
    if (answer === undefined) return false
    const [storeNowMs, bytes] = answer
    const notes = bytes.map(String)
    const storeAheadMs = storeNowMs - clock.nowMs()
    providerClock.compare(storeAheadMs)
    const behindMs = Math.max(...notes.map(decodeBehind), 0)
    // By the clock that it was told to: the nodes of a Cluster have one each.
    if (behindMs > 0) providerClock.hearsay(storeAheadMs - behindMs)
    const earliestMs = providerClock.earliestMs()
    for (const note of notes) {
      const quote = decodeNote(note, Math.max(storeNowMs, clock.nowMs()))
      if (quote === undefined || ledger.knows(quote)) continue
      if (places.ofQuote(quote).some((place) => place.key === key)) ledger.note(quote, earliestMs)
    }
    return true
  }

  sharedStore.onUp(() => {
    // The first time that it is there, at a start, is no return: nothing was given out yet.
    if (inUse) settledAtMs = performance.now() + settleMs
    inUse = true
    void writeAgain()
  })

  return {
    async note(quote) {
      // The provider gave the same quote again: everybody knows.
      if (ledger.knows(quote)) return
      ledger.note(quote, providerClock.earliestMs())
      remember(quote)
      await write(quote)
    },

    noteHere(quote) {
      if (ledger.knows(quote)) return
      ledger.note(quote, providerClock.earliestMs())
      remember(quote)
    },

    async recall(order, application) {
      const keys = places.ofOrder(order, application)
      if (keys.length === 0) return true
      const answered = await Promise.all(keys.map(recallFrom))
      return !answered.includes(false) && performance.now() >= settledAtMs
    },
  }
}
