import type { StoredQuote } from '../quotes/quote-store.ts'

export type UsedQuote = Pick<StoredQuote, 'id' | 'expiresAtMs'>

/** A copy of the uses that outlives the process. */
export interface UseMirror {
  note(quote: UsedQuote): number
  forget(serial: number): void
}

/** Quotes that an order used. They are not handed out again before they expire. */
export interface UsedQuotes {
  mark(id: string, expiresAtMs: number): void
  /** The same id with a later expiry is a different quote. */
  isUsed(quote: UsedQuote): boolean
  /** 0: no quote of this id was used. */
  untilMs(id: string): number
  /** What an earlier process marked. */
  restore(quote: UsedQuote, serial: number): void
  sweep(isOver: (quote: UsedQuote) => boolean): void
  all(): Iterable<readonly [serial: number, quote: UsedQuote]>
}

const maxIds = 10_000
const noMirror: UseMirror = { note: () => 0, forget: () => {} }

export function createUsedQuotes(mirror: UseMirror = noMirror): UsedQuotes {
  /** By id, the oldest use first. */
  const uses = new Map<string, { readonly quote: UsedQuote; readonly serial: number }>()

  const untilMs = (id: string) => uses.get(id)?.quote.expiresAtMs ?? 0

  function keep(quote: UsedQuote, serial: number): void {
    drop(quote.id)
    uses.set(quote.id, { quote, serial })
    const [oldest = quote.id] = uses.keys()
    if (uses.size > maxIds) drop(oldest)
  }

  function drop(id: string): void {
    const use = uses.get(id)
    if (use === undefined) return
    uses.delete(id)
    mirror.forget(use.serial)
  }

  return {
    mark(id, expiresAtMs) {
      // The same id may have been used before with a later expiry.
      const quote = { id, expiresAtMs: Math.max(expiresAtMs, untilMs(id)) }
      keep(quote, mirror.note(quote))
    },
    isUsed: ({ id, expiresAtMs }) => expiresAtMs <= untilMs(id),
    untilMs,
    restore: keep,
    sweep(isOver) {
      for (const { quote } of uses.values()) if (isOver(quote)) drop(quote.id)
    },
    all: () => [...uses.values()].map(({ quote, serial }) => [serial, quote]),
  }
}
