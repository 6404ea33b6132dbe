import { expect, it } from 'vitest'
import { Events } from '../../src/events.ts'
import { Ledger } from '../../src/memory/ledger.ts'
import { Notes } from '../../src/memory/notes.ts'
import { createTestClock } from '../support/clients/quotes.ts'

function notesOf(forgotten: string[] = []) {
  const clock = createTestClock()
  const ledger = new Ledger({ entries: 10, clock })
  return new Notes({
    ledger,
    clock,
    events: new Events(),
    markOf: (partition) => partition,
    journals: { disk: undefined, stream: undefined },
    sharedQuotes: undefined,
    cache: { forgetAll: (keys) => forgotten.push(...keys) },
  })
}

it('a used quote was used up to its expiry, and the same id with a later one only once that was used', () => {
  const notes = notesOf()
  notes.use({ id: 'q1', expiresAtMs: 100, cacheKey: '' })
  const usedAt = () =>
    [99, 100, 200, 201].map((expiresAtMs) => notes.wasUsed({ id: 'q1', expiresAtMs }))
  expect(usedAt()).toEqual([true, true, false, false])
  notes.use({ id: 'q1', expiresAtMs: 200, cacheKey: '' })
  expect(usedAt()).toEqual([true, true, true, false])
})

it('a used quote that the ledger has dropped is forgotten under its own key', () => {
  const forgotten: string[] = []
  notesOf(forgotten).use({ id: 'q1', expiresAtMs: 100, cacheKey: 'key' })
  expect(forgotten).toEqual(['key'])
})
