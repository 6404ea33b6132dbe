import { expect, it } from 'vitest'
import { Events } from '../../src/events.ts'
import { createMemoryQuoteStore } from '../../src/quotes/memory-quote-store.ts'
import { createTestClock } from '../support/clients/quotes.ts'
import { describeBounds, describeQuoteStore, type StoreOptions, storedQuote } from './quote-store.ts'

const clock = createTestClock()

function create(options: StoreOptions) {
  const store = createMemoryQuoteStore({ ...options, clock, events: new Events() })
  return { store, sizes: () => ({ entries: store.entries, bytes: store.bytes }) }
}

describeQuoteStore('the memory store', create)
describeBounds('the memory store', create)

it('reports the quotes that it dropped for lack of room, and no others', () => {
  let evicted = 0
  const store = createMemoryQuoteStore({
    maxEntries: 2,
    maxBytes: 1_000_000,
    clock,
    events: new Events([
      {
        quotesDropped(reason, quotes) {
          if (reason === 'capacity') evicted += quotes
        },
      },
    ]),
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
