import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { NotedQuote } from '../../src/orders/noted-quote.ts'
import { orderLeftMs } from '../../src/quotes/ends.ts'
import { decodeNote, encodeNote, type ReadAt } from '../../src/replicas/ledger-codec.ts'

const expiry = 1_763_651_841_481
const notedAt = { nowMs: expiry - 30_000, steadyMs: 5_000 }
const quote: NotedQuote = {
  id: 'q1',
  pairId: 'ETH_USDC',
  fromValue: '0.1',
  requestedAmount: '0.1',
  toValue: '289.645',
  application: 'wallet',
  partition: 'a',
  expiresAtMs: expiry,
  refusedFromMs: expiry + 2_000,
  wallAheadMs: notedAt.nowMs - notedAt.steadyMs,
  cacheKey: 'key',
  notedAtMs: expiry - 30_000,
}
/** As the script of the store writes it: the store's clock is cut to milliseconds. */
const written = (noted: NotedQuote, storeMs: number, at = notedAt) =>
  `${noted.expiresAtMs} ${Math.floor(storeMs)} ${encodeNote(noted, at)}`
const readAt: ReadAt = { storeNowMs: 1_000_000, ...notedAt }

describe('a note of a quote in the shared store', () => {
  it.each(['a', undefined])('is the quote, given to the partition %s', (partition) => {
    const noted = { ...quote, partition }
    const read = decodeNote(written(noted, 1_000_000), readAt)
    expect(read).toEqual({ ...noted, refusedFromMs: read?.refusedFromMs })
  })

  it("has as much left as the store's clock says, whatever the clocks of the replica that reads it show", () => {
    const anHourBehind = { nowMs: notedAt.nowMs - 3_590_000, steadyMs: 700 }
    const read = decodeNote(written(quote, 1_000_000), { storeNowMs: 1_010_000, ...anHourBehind })
    // Of 32 seconds ten are over.
    expect(read && Math.abs(orderLeftMs(read, anHourBehind) - 22_000)).toBeLessThanOrEqual(2)
    expect(read?.expiresAtMs).toBe(expiry)
  })

  it('never ends earlier than the quote, and later by what it took on its way', () => {
    const upTo = (max: number) => fc.double({ min: 0, max, noNaN: true })
    const took = fc.oneof(upTo(0.1), upTo(500))
    const instant = upTo(1e9)
    const clock = fc.record({ nowMs: fc.integer({ min: expiry - 86_400_000, max: 2e12 }), steadyMs: instant })
    fc.assert(
      fc.property(took, took, took, instant, clock, (toStore, inStore, fromStore, storeMs, there) => {
        // The wall clock is cut to milliseconds too.
        const at = { nowMs: notedAt.nowMs, steadyMs: notedAt.steadyMs + (toStore % 1) }
        const note = written(quote, storeMs + toStore, at)
        const readAt = { storeNowMs: Math.floor(storeMs + toStore + inStore), ...there }
        const read = decodeNote(note, readAt)
        const trulyLeftMs = orderLeftMs(quote, at) - (toStore + inStore + fromStore)
        const lateMs = (read ? orderLeftMs(read, there) : Number.NaN) - trulyLeftMs
        expect(lateMs).toBeGreaterThanOrEqual(-1e-3)
        expect(lateMs).toBeLessThanOrEqual(toStore + fromStore + 3)
      }),
      { numRuns: 1_000 },
    )
  })

  it.each([
    ['of another version, whose end is a pair of instants', '[28000,30000]'],
    ['whose end is a text', '"32000"'],
    ['without an end', 'null'],
  ])('%s is ignored', (_what, left) => {
    const note = written(quote, 1_000_000).replace(/[\d.]+\]$/, `${left}]`)
    expect(note).toContain(`,${left}]`)
    expect(decodeNote(note, readAt)).toBeUndefined()
  })

  it('of version 1.0.0, which has no time of the store, is ignored', () => {
    const { id, pairId, fromValue, requestedAmount, toValue, application, notedAtMs, cacheKey } = quote
    const members = [id, pairId, fromValue, requestedAmount, toValue, application, notedAtMs, cacheKey]
    expect(decodeNote(`${expiry} ${JSON.stringify(members)}`, readAt)).toBeUndefined()
  })
})
