import { expect, it } from 'vitest'
import { createMemoryQuoteStore } from '../../src/quotes/memory-quote-store.ts'
import { describeBounds, describeQuoteStore, type StoreOptions, storedQuote } from './quote-store.ts'

function create(options: StoreOptions) {
  const store = createMemoryQuoteStore(options)
  return { store, sizes: () => ({ entries: store.entries, bytes: store.bytes }) }
}

describeQuoteStore('the memory store', create)
describeBounds('the memory store', create)

it('reports the quotes that it dropped for lack of room, and no others', () => {
  let evicted = 0
  const store = createMemoryQuoteStore({
    maxEntries: 2,
    maxBytes: 1_000_000,
    observer: {
      evicted() {
        evicted += 1
      },
      stored() {},
    },
  })
  store.set('a', storedQuote())
  store.set('a', storedQuote())
  store.set('b', storedQuote())
  store.forget('b', 'quote-1')
  expect(evicted).toBe(0)
  store.set('c', storedQuote())
  store.set('d', storedQuote())
  expect(evicted).toBe(1)
})
