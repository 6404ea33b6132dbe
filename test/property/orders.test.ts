import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createQuoteLedger, type NotedQuote } from '../../src/orders/ledger.ts'
import { amountMatches, type OrderTerms, readOrder } from '../../src/orders/order-terms.ts'

const START = 1_763_651_841_481
const RETENTION = 200
const TERMS = 60

// Few enough to meet, and among them decimals that share a double.
const amount = fc.constantFrom(
  '0.1',
  '0.1000000000000000055',
  '123456789.123456789',
  '123456789.12345679',
  '9007199254740993',
  '9007199254740992',
  '0.0000001',
  '1000000000000000000000',
)

/** What different clients make of a decimal, as JSON. */
const spelled = (decimal: string) =>
  fc.constantFrom(
    JSON.stringify(Number(decimal)),
    decimal,
    JSON.stringify(decimal),
    `{"assetId":"X","value":${JSON.stringify(decimal)}}`,
    `{"value":${JSON.stringify(Number(decimal))}}`,
    `"${decimal}e0"`,
  )

const quote = fc.record({
  id: fc.constantFrom('q0', 'q1', 'q2', 'q3', 'q4', 'q5'),
  pairId: fc.constantFrom('A_B', 'B_A'),
  fromValue: amount,
  toValue: amount,
  application: fc.constantFrom('wallet', ''),
  lifeMs: fc.integer({ min: 0, max: 50 }),
  rounds: fc.option(amount, { freq: 4, nil: undefined }),
})

const order = fc
  .record({
    id: fc.option(fc.constantFrom('q0', 'q1', 'q2', 'q9'), { nil: undefined, freq: 2 }),
    other: fc.option(fc.constantFrom('q3', 'q8'), { nil: undefined, freq: 2 }),
    pairId: fc.constantFrom('A_B', 'B_A'),
    from: amount.chain(spelled),
    to: fc.option(fc.oneof({ weight: 9, arbitrary: amount.chain(spelled) }, fc.constant('"?"')), {
      nil: undefined,
    }),
  })
  .map(({ id, other, pairId, from, to }) => {
    const members = [`"pairId":"${pairId}"`, `"fromAmount":${from}`]
    if (to !== undefined) members.push(`"toAmount":${to}`)
    if (id !== undefined) members.push(`"quoteId":"${id}"`)
    if (other !== undefined) members.push(`"id":"${other}"`)
    return `{${members.join(',')}}`
  })

const step = fc.record({
  waitMs: fc.oneof(fc.integer({ min: 0, max: 20 }), fc.constantFrom(TERMS, RETENTION)),
  quote: fc.option(quote, { nil: undefined, freq: 3 }),
  order,
  application: fc.option(fc.constantFrom('wallet', ''), { nil: undefined, freq: 6 }),
  marginMs: fc.constantFrom(0, 0, 1, 10),
})
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

/** Keeps every quote and searches all of them. */
function naiveVerdict(
  noted: readonly NotedQuote[],
  terms: OrderTerms,
  { application, marginMs }: Step,
  nowMs: number,
) {
  const lastOf = (quotes: readonly NotedQuote[]) => Math.max(...quotes.map(({ expiresAtMs }) => expiresAtMs))
  const judged = (expiresAtMs: number, matchedBy: string) => ({
    state: nowMs < expiresAtMs - marginMs ? 'live' : 'expired',
    expiresAtMs,
    matchedBy,
  })
  const named = lastOf(noted.filter(({ id }) => terms.quoteIds.includes(id)))
  if (nowMs < named + RETENTION) return judged(named, 'id')
  const meant = lastOf(noted.filter((candidate) => isMeant(candidate, terms, application)))
  return nowMs < meant + TERMS ? judged(meant, 'terms') : { state: 'unknown' }
}

function isMeant(
  candidate: NotedQuote,
  { pair, fromAmount, toAmount }: OrderTerms,
  application: string | undefined,
) {
  if (fromAmount === undefined || toAmount === 'unreadable') return false
  if (pair !== candidate.pairId || application !== candidate.application) return false
  if (toAmount !== undefined && !amountMatches(toAmount, candidate.toValue)) return false
  return [candidate.fromValue, candidate.requestedAmount].some((decimal) =>
    amountMatches(fromAmount, decimal),
  )
}

function live(steps: readonly Step[], entries: number, judge: (moment: Moment) => void) {
  const ledger = createQuoteLedger({ entries, retentionMs: RETENTION, termsMs: TERMS })
  const noted: NotedQuote[] = []
  let nowMs = START
  for (const [index, current] of steps.entries()) {
    nowMs += current.waitMs
    if (current.quote !== undefined) {
      const { lifeMs, rounds, ...terms } = current.quote
      const requestedAmount = rounds ?? terms.fromValue
      noted.push({
        ...terms,
        requestedAmount,
        expiresAtMs: nowMs + lifeMs,
        cacheKey: `key ${index}`,
        notedAtMs: nowMs,
      })
      ledger.note(
        {
          ...terms,
          requestedAmount,
          expiresAtMs: nowMs + lifeMs,
          cacheKey: `key ${index}`,
          notedAtMs: nowMs,
        },
        nowMs,
      )
    }
    const reading = readOrder(Buffer.from(current.order), { quoteIdFields: ['quoteId', 'id'] })
    if (reading.order === undefined) throw new Error(reading.problem)
    const { application, marginMs } = current
    const verdict = ledger.verdict(reading.order, { application, marginMs, providerEarliestMs: nowMs })
    const expected = naiveVerdict(noted, reading.order, current, nowMs)
    judge({ verdict, expected, liveNow: noted.filter(({ expiresAtMs }) => nowMs < expiresAtMs).length })
    expect(ledger.size).toBeLessThanOrEqual(entries)
  }
}

interface Moment {
  verdict: ReturnType<ReturnType<typeof createQuoteLedger>['verdict']>
  expected: ReturnType<typeof naiveVerdict>
  liveNow: number
}

it('a live quote is never judged expired and an expired one never live', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40, size: 'max' }), (steps) => {
      live(steps, 1_000, ({ verdict, expected }) => {
        const { state } = verdict
        if (verdict.state === 'unknown') expect({ state }).toEqual(expected)
        else {
          const { expiresAtMs } = verdict.quote
          expect({ state, expiresAtMs, matchedBy: verdict.matchedBy }).toEqual(expected)
        }
      })
    }),
    { numRuns: 1_000 },
  )
})

it('a ledger that is too small forgets quotes, but takes none for live or expired that is not', () => {
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 60, size: 'max' }),
      fc.integer({ min: 1, max: 8 }),
      (steps, entries) => {
        live(steps, entries, ({ verdict, expected, liveNow }) => {
          // By id or by terms may differ: a forgotten id falls back to terms.
          if (verdict.state === 'expired') expect(expected.state).toBe('expired')
          if (verdict.state === 'live' && verdict.matchedBy === 'id') expect(expected.state).toBe('live')
          if (expected.state === 'live' && liveNow <= entries) expect(verdict.state).toBe('live')
        })
      },
    ),
    { numRuns: 1_000 },
  )
})

const mutated = fc
  .tuple(
    fc.oneof(fc.json(), fc.constant('{"pairId":"A_B","fromAmount":1.5e-1,"quote":{"id":"\\u0041"}}')),
    fc.nat(),
    fc.constantFrom(...'{}[]:,"\\0-.eE+ tn\u0000\u00e9'),
    fc.boolean(),
  )
  .map(([json, where, character, replaces]) => {
    const index = where % (json.length + 1)
    return json.slice(0, index) + character + json.slice(replaces ? index + 1 : index)
  })

it('reads an order exactly where JSON.parse finds an object, unless a key is there twice', () => {
  fc.assert(
    fc.property(fc.oneof(fc.json(), mutated), (text) => {
      let isAnObject = false
      try {
        const json: unknown = JSON.parse(text)
        isAnObject = typeof json === 'object' && json !== null && !Array.isArray(json)
      } catch {}
      const { order: found, problem } = readOrder(Buffer.from(text), { quoteIdFields: ['id'] })
      if (!isAnObject) expect(found).toBeUndefined()
      else if (found === undefined) expect(problem).toMatch(/same key twice/)
    }),
    { numRuns: 5_000 },
  )
})

it('finds no key twice in what JSON.stringify writes', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (object) => {
      expect(
        readOrder(Buffer.from(JSON.stringify(object)), { quoteIdFields: ['id'] }).problem,
      ).toBeUndefined()
    }),
  )
})
