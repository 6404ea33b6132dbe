import { expect, test } from 'vitest'
import {
  decodeCopy,
  decodeHold,
  decodeLine,
  encodeCopy,
  encodeEnd,
  encodeHold,
  encodeRecord,
} from '../../src/memory/records.ts'
import type { Note } from '../../src/quotes/note.ts'

// In a rolling update both versions read what the other one writes, and a new version reads the folder of the old one.
// The texts here are what version 1.1 wrote: they are read, and the same is written.

const now = { nowMs: 1_763_640_000_000, steadyMs: 5_000 }
const quote: Note = {
  id: 'bb206d2a',
  pairId: 'ETH_USDC',
  application: 'wallet',
  partition: 'b0Zr-FhzXc6BX7hFgzgBTg',
  fromValue: '0.1',
  requestedAmount: '0.1',
  toValue: '289.645',
  hasNumbers: false,
  cacheKey: 'key',
  expiresAtMs: 1_763_640_030_000,
  refusedFromMs: 1_763_640_029_250,
  notedAtMs: 1_763_639_999_500,
  wallAheadMs: now.nowMs - now.steadyMs,
}

test.each([
  [
    'a quote',
    { kind: 'noted', quote } as const,
    '[1648943413,"n",1763640000000,29250,29750,"bb206d2a","ETH_USDC","wallet","0.1 289.645",0,"b0Zr-FhzXc6BX7hFgzgBTg","key",1763640030000]',
  ],
  [
    'a quote that is over, of a user without an address',
    {
      kind: 'noted',
      quote: {
        ...quote,
        id: 'ü"\n',
        partition: undefined,
        requestedAmount: '0.10000001',
        cacheKey: '',
        refusedFromMs: 1_763_639_998_000,
        notedAtMs: 1_763_639_968_000,
      },
    } as const,
    String.raw`[1019516634,"n",1763640000000,-2000,30000,"ü\"\n","ETH_USDC","wallet","0.1 289.645","0.10000001",0,"",1763640030000]`,
  ],
  [
    'an answer that could not be read',
    {
      kind: 'noted',
      quote: { ...quote, id: '', toValue: '', cacheKey: '' },
    } as const,
    '[2398502482,"n",1763640000000,29250,29750,"","ETH_USDC","wallet","0.1 ",0,"b0Zr-FhzXc6BX7hFgzgBTg","",1763640030000]',
  ],
  [
    'a quote that an order used',
    { kind: 'used', quote: { id: 'bb206d2a', expiresAtMs: 1_763_640_030_000 } } as const,
    '[866884553,"u",1763640000000,"bb206d2a",1763640030000]',
  ],
])('the line of %s is the same in both versions', (_what, record, line) => {
  expect(encodeRecord(record, now)).toBe(line)
  const ageOf = (wallMs: number) => now.nowMs - wallMs
  expect(decodeLine(line, now, ageOf)).toEqual({ record, wallMs: now.nowMs })
})

test('the last line of a process is the same in both versions', () => {
  const line = '[1664856698,"e",1763640000000]'
  expect(encodeEnd(now.nowMs)).toBe(line)
  const read = { record: undefined, wallMs: now.nowMs }
  expect(decodeLine(line, now, () => 0)).toEqual(read)
})

test('the line of a hold is read, with what is left of it when it is read', () => {
  const hold = {
    pair: 'ETH_USDC',
    application: undefined,
    quotes: true,
    reason: 'a "price"',
    saidAtMs: 1_763_639_990_000,
    lastsMs: 60_000,
    endsSteadyMs: now.steadyMs + 50_000,
    untilMs: now.nowMs + 50_000,
    keptSteadyMs: now.steadyMs + 70_000,
  }
  const line = encodeHold(hold, now)
  expect(line).toBe(
    String.raw`[2409207628,"h",1763640000000,1763639990000,50000,70000,60000,"ETH_USDC",0,1,"a \"price\""]`,
  )
  expect(decodeHold(line, now, now.nowMs)).toEqual(hold)
  const later = { nowMs: 5, steadyMs: 7 }
  expect(decodeHold(line, later, now.nowMs + 10_000)).toEqual({
    ...hold,
    endsSteadyMs: 40_007,
    untilMs: 40_005,
    keptSteadyMs: 60_007,
  })
  // A reader whose clock is behind does not make it longer.
  const behind = decodeHold(line, later, now.nowMs - 10_000)
  expect(behind).toMatchObject({ endsSteadyMs: 50_007 })
  expect(decodeLine(line, now, () => 0)).toBe(undefined)
})

test('the copy of a quote in the shared cache is the same in both versions', () => {
  const body =
    '{"fromAmount":{"assetId":"ETH","value":"0.10"},"id":"bb206d2a","pairId":"ETH_USDC",' +
    '"toAmount":{"assetId":"USDC","value":"289.6450"},"expiry":1763640030000,"note":"caf\xc3\xa9"}'
  const end = {
    servedUntilMs: 1_763_640_029_000,
    refusedFromMs: 1_763_640_029_250,
    wallAheadMs: now.nowMs - now.steadyMs,
  }
  const copied = {
    id: 'bb206d2a',
    pairId: 'ETH_USDC',
    fromValue: '0.10',
    toValue: '289.6450',
    hasNumbers: false,
    toAsset: 'USDC',
    body,
    headers: ['Content-Type', 'application/json', 'X-Latin', 'caf\xe9'],
    lifeMs: 29_000,
    expiresAtMs: 1_763_640_030_000,
    end,
  }
  const head =
    '"bb206d2a"\n[29000,1763640030000,"Content-Type","application/json","X-Latin","café"]\n'
  const bytes = Buffer.concat([Buffer.from(head), Buffer.from(body, 'latin1')])
  expect(encodeCopy(copied).equals(bytes)).toBe(true)
  expect(decodeCopy(bytes, end)).toEqual(copied)
})
