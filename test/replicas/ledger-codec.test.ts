import { describe, expect, it } from 'vitest'
import type { NotedQuote } from '../../src/orders/ledger.ts'
import { decodeNote, encodeNote } from '../../src/replicas/ledger-codec.ts'

const expiry = 1_763_651_841_481
const quote: NotedQuote = {
  id: 'q1',
  pairId: 'ETH_USDC',
  fromValue: '0.1',
  requestedAmount: '0.1',
  toValue: '289.645',
  application: 'wallet',
  partition: 'a',
  expiresAtMs: expiry,
  ownEnd: { fromMs: 28_000, untilMs: 30_000 },
  cacheKey: 'key',
  notedAtMs: expiry - 30_000,
}
/** As the script of the store writes it. */
const written = (noted: NotedQuote, steadyNowMs: number, storeNowMs: number) =>
  `${noted.expiresAtMs} ${storeNowMs} ${encodeNote(noted, steadyNowMs)}`

describe('a note of a quote in the shared store', () => {
  it("is the quote, and its own end is counted by the store's clock", () => {
    const note = written(quote, 5_000, 1_000_000)
    const read = (storeNowMs: number, steadyNowMs: number) =>
      decodeNote(note, { storeNowMs, nowMs: expiry, steadyNowMs })
    expect(read(1_000_000, 5_000)).toEqual(quote)
    // Another process, whose steady clock began at another time, reads it ten seconds later: 13 to 15 s are left.
    expect(read(1_010_000, 700)?.ownEnd).toEqual({ fromMs: 13_700, untilMs: 15_700 })
    // What the way to the store and back took makes it later, so that it refuses no live order.
    expect(read(1_010_000, 750)?.ownEnd).toEqual({ fromMs: 13_750, untilMs: 15_750 })
  })

  it('may have neither an own end nor a partition', () => {
    const bare = { ...quote, ownEnd: undefined, partition: undefined }
    const readAt = { storeNowMs: 1, nowMs: expiry, steadyNowMs: 0 }
    expect(decodeNote(written(bare, 0, 1), readAt)).toEqual(bare)
  })

  it('of version 1.0.0 is read, and has neither', () => {
    const { id, pairId, fromValue, requestedAmount, toValue, application, notedAtMs, cacheKey } = quote
    const members = [id, pairId, fromValue, requestedAmount, toValue, application, notedAtMs, cacheKey]
    const note = `${expiry} ${JSON.stringify(members)}`
    expect(decodeNote(note, { storeNowMs: 0, nowMs: expiry, steadyNowMs: 0 })).toEqual({
      ...quote,
      partition: undefined,
      ownEnd: undefined,
    })
  })

  it.each([
    ['an own end of one number', '[1]'],
    ['an own end of texts', '["1","2"]'],
    ['an own end that is an object', '{"0":1,"1":2}'],
  ])('with %s is ignored', (_what, ownLeft) => {
    const note = written(quote, 0, 1).replace(/\[28000,30000\]/, ownLeft)
    expect(note).toContain(ownLeft)
    expect(decodeNote(note, { storeNowMs: 1, nowMs: expiry, steadyNowMs: 0 })).toBeUndefined()
  })
})
