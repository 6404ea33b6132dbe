import { type Clock, lookAt } from '../clock.ts'
import type { Ledger } from '../orders/ledger.ts'
import type { NotedQuote, SharedLedger } from '../orders/noted-quote.ts'
import { orderLeftMs } from '../quotes/ends.ts'
import type { Span } from '../tracing/observer.ts'
import { createLedgerKeys, decodeNote, encodeNote, maxLifeMs } from './ledger-codec.ts'
import { createRefill } from './refill.ts'
import type { SharedStore } from './store.ts'
import { maxFields, noteScript, recallScript } from './valkey/ledger-scripts.ts'

export interface SharedLedgerOptions {
  sharedStore: Pick<SharedStore, 'keyPrefix' | 'salt' | 'run' | 'onUp'>
  ledger: Pick<Ledger, 'note' | 'knows'>
  clock: Clock
  /** How long past its expiry a quote is remembered. */
  retentionMs: number
  /** How long after the store's return `recall` says that there may be more quotes, at least. */
  settleMs?: number
}

/** Each replica finds the store within two seconds of its return, and then marks that it fills the store again. */
const defaultSettleMs = 5_000

/** Quotes looked for in the store. It was emptied if it has none of those that were noted last. */
const quotesLookedFor = 8

export interface FillableSharedLedger extends SharedLedger {
  /** What an earlier process gave out, oldest first: written to the store if that was emptied. `afterMs`: not before then. */
  fillFrom(quotes: readonly NotedQuote[], afterMs: number): void
}

export function createSharedLedger(options: SharedLedgerOptions): FillableSharedLedger {
  const { sharedStore, ledger, clock, retentionMs, settleMs = defaultSettleMs } = options
  const keys = createLedgerKeys(sharedStore)
  const refill = createRefill({ sharedStore, clock, write })
  let inUse = false
  /** What an earlier process gave out, until it is known whether the store still has it. */
  let restored: readonly NotedQuote[] = []

  async function write(quote: NotedQuote, span?: Span): Promise<boolean> {
    const now = lookAt(clock)
    const note = encodeNote(quote, now)
    const leftMs = Math.ceil(orderLeftMs(quote, now))
    // Notes are compared by their expiries, which are instants of the provider's clock.
    const expiredByMs = Math.max(0, quote.expiresAtMs - leftMs - retentionMs)
    const keepMs = retentionMs + Math.min(leftMs, maxLifeMs)
    if (keepMs <= 0) return true
    const writes = keys.fieldsOf(quote).map(({ key, field }) => {
      const parameters = [field, note, quote.expiresAtMs, expiredByMs, keepMs, maxFields]
      return sharedStore.run('ledger-note', (client) => noteScript(client, key, parameters), span)
    })
    const written = await Promise.all(writes)
    inUse = true
    return written.every((answer) => answer !== undefined)
  }

  function noteGiven(quote: NotedQuote): void {
    ledger.note(quote)
    refill.add(quote)
  }

  /** Notes here what the store has under one key. False: the store failed. */
  async function recallKey(key: string, span: Span | undefined): Promise<boolean> {
    const answer = await sharedStore.run('ledger-recall', (client) => recallScript(client, key, []), span)
    inUse = true
    if (answer === undefined) return false
    const [storeNowMs, bytes] = answer
    const readAt = { storeNowMs, ...lookAt(clock) }
    for (const note of bytes) {
      const quote = decodeNote(String(note), readAt)
      if (quote === undefined || ledger.knows(quote)) continue
      if (keys.fieldsOf(quote).some((field) => field.key === key)) ledger.note(quote)
    }
    return true
  }

  async function fillIfEmptied(): Promise<void> {
    const looked = restored
    const found = await Promise.all(
      looked.slice(-quotesLookedFor).map((quote) => {
        const [byId] = keys.fieldsOf(quote)
        return sharedStore.run('ledger-refill', (client) => client.exists(byId?.key ?? ''))
      }),
    )
    // The store is not there. Its return asks again.
    if (restored !== looked || looked.length === 0 || found.includes(undefined)) return
    restored = []
    if (found.some((keysThere) => keysThere !== 0)) return
    refill.addOlder(looked)
    void refill.begin(settleMs)
  }

  sharedStore.onUp(() => {
    // When the store is up for the first time and nothing was noted or recalled yet, no quote can have been lost.
    void refill.begin(inUse ? settleMs : 0)
    inUse = true
    void fillIfEmptied()
  })

  return {
    async note(quote, span) {
      // The provider gave the same quote again, so the store has it.
      if (ledger.knows(quote)) return
      noteGiven(quote)
      await write(quote, span)
    },

    noteHere(quote) {
      if (!ledger.knows(quote)) noteGiven(quote)
    },

    fillFrom(quotes, afterMs) {
      const begin = () => {
        restored = quotes
        void fillIfEmptied()
      }
      if (afterMs === 0) begin()
      else setTimeout(begin, afterMs).unref()
    },

    async recall(order, orderer, span) {
      const orderKeys = keys.keysOf(order, orderer)
      if (orderKeys.length === 0) return true
      // Before the keys are read, or a quote could come between.
      await refill.look()
      const answered = await Promise.all(orderKeys.map((key) => recallKey(key, span)))
      return refill.settled && !answered.includes(false)
    },
  }
}
