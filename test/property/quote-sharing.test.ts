import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createPartition } from '../../src/client/partition.ts'
import { lookAt } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { UpstreamFailure } from '../../src/http/failure.ts'
import { createMemoryQuoteStore } from '../../src/quotes/memory-quote-store.ts'
import type { QuoteAnswer } from '../../src/quotes/quote-answer.ts'
import { createQuoteCache, type Served } from '../../src/quotes/quote-cache.ts'
import { createQuoteKey } from '../../src/quotes/quote-key.ts'
import { createTestClock, deferred, endAt, sourceOf } from '../support/clients/quotes.ts'

type Mode = Parameters<typeof createPartition>[0]['mode']
const mode = fc.constantFrom<Mode>('ip', 'header', 'none')
// Few values, so that clients meet often, and treacherous ones, so that they meet wrongly if they can.
const client = fc.record({
  address: fc.constantFrom(
    '203.0.113.7',
    '203.0.113.8',
    '203.0.114.7',
    '2001:db8::1',
    '2001:db8:0:100::1',
    undefined,
  ),
  peerTrusted: fc.boolean(),
  place: fc.constantFrom('', 'DE', 'FR', 'XX', '203.0.113.7', 'ip:203.0.113.7', 'net:203.0.113'),
  amount: fc.constantFrom('1', '1', '2'),
  appName: fc.constantFrom('a', 'a', 'a', 'b', '1:a'),
})
type Client = typeof client extends fc.Arbitrary<infer Value> ? Value : never

const step = fc.record({
  client,
  doing: fc.constantFrom('ask', 'ask', 'ask', 'leave', 'answer', 'answer', 'fail', 'time', 'wait'),
  pick: fc.nat(5),
  lifeMs: fc.constantFrom(0, 1, 1_000, 30_000),
  shared: fc.constantFrom(true, true, true, false),
  waitMs: fc.constantFrom(1, 999, 1_000, 29_999, 30_000),
})

let strangers = 0

/** After it, those that joined the call share a further one. */
const late = new UpstreamFailure('swap', { fault: 'http_response_timeout', maybeSeen: true })

/** Who may share, said once more and differently from the code. */
function circleOf(mode: Mode, { address, peerTrusted, place, amount, appName }: Client): string {
  // An unknown client shares with no client, not even with another unknown one.
  strangers += 1
  const stranger = address === undefined ? ` ${strangers}` : ''
  const byAddress = `a ${address}${stranger}`
  const where = {
    none: 'all',
    ip: byAddress,
    header: address && peerTrusted && !['', 'XX'].includes(place) ? `p ${place}` : byAddress,
  }[mode]
  return JSON.stringify([where, amount, appName])
}

it('in every mode a quote fetched for one partition is never served to another, and an expired quote never at all', async () => {
  let hits = 0
  let collapsed = 0
  let furtherTakers = 0
  await fc.assert(
    fc.asyncProperty(
      mode,
      fc.integer({ min: 0, max: 20_000 }),
      fc.array(step, { minLength: 60, maxLength: 120 }),
      async (options, refreshAheadMs, steps) => {
        const clock = createTestClock()
        const partitionOf = createPartition({ mode: options, placeHeaders: ['x-place'] })
        const keyOf = createQuoteKey()
        const events = new Events()
        const cache = createQuoteCache({
          store: createMemoryQuoteStore({ maxEntries: 4, maxBytes: 100_000, clock, events }),
          clock,
          minValidityMs: 0,
          refreshAheadMs,
          events,
        })
        const open: { circle: string; settle(change: (typeof steps)[number]): void }[] = []
        const leavers: (() => void)[] = []

        function callFor(circle: string, signal?: AbortSignal) {
          const { promise, resolve, reject } = deferred<QuoteAnswer>()
          const call = {
            circle,
            settle({ doing, lifeMs, shared }: (typeof steps)[number]) {
              if (doing === 'fail') return reject(new Error('down'))
              if (doing === 'time') return reject(late)
              const expiresAtMs = clock.nowMs() + lifeMs
              const end = endAt(expiresAtMs)
              const quote = { id: circle, body: circle, headers: [], lifeMs: 0, expiresAtMs, end }
              const stored = lifeMs > 0 && shared ? quote : undefined
              const base = { status: 200, reason: '', headers: [], end: undefined, notKept: undefined }
              resolve({ ...base, body: Buffer.from(circle), stored, shared })
            },
          }
          open.push(call)
          signal?.addEventListener('abort', () => reject(new Error('given up')))
          return promise
        }

        function check(circle: string, served: Served): void {
          if (served.how === 'hit') {
            hits += 1
            expect(served.quote.body).toBe(circle)
            return
          }
          if (served.how === 'collapsed') collapsed += 1
          expect(served.answer.body.toString()).toBe(circle)
        }

        for (const now of steps) {
          if (now.doing === 'wait') clock.advance(now.waitMs)
          else if (now.doing === 'leave') leavers[now.pick % Math.max(leavers.length, 1)]?.()
          else if (now.doing !== 'ask') open.splice(now.pick % Math.max(open.length, 1), 1)[0]?.settle(now)
          else {
            const circle = circleOf(options, now.client)
            const partition = partitionOf(now.client, ['X-Place', now.client.place])
            const { appName, amount } = now.client
            const key =
              partition === undefined
                ? undefined
                : keyOf({
                    pair: 'p',
                    canonicalAmount: amount,
                    partition,
                    query: '',
                    target: '/',
                    keyedHeaders: [['app-name', appName]],
                  })
            const source = sourceOf((signal) => callFor(circle, signal))
            const live = key === undefined ? undefined : cache.live(key, lookAt(clock))
            if (key !== undefined && live !== undefined && cache.isRefreshDue(key, live))
              cache.refresh(key, live, source)
            // At this very instant: nothing is handed out that is over.
            if (live !== undefined) expect(live.expiresAtMs).toBeGreaterThan(clock.nowMs())
            let taken = 0
            const patience = {
              hasTimeAfter: () => true,
              shareAfterRefusal: () => false,
              takeFurtherCall() {
                taken += 1
                if (taken === 1) furtherTakers += 1
                return taken === 1
              },
            }
            const asking =
              key === undefined ? cache.fetchAlone(source) : cache.getOrFetch(key, source, { patience })
            leavers.push(asking.leave)
            asking.served.then(
              (served) => wrong.push(...failureOf(() => check(circle, served))),
              () => {},
            )
          }
          await new Promise((resolve) => setImmediate(resolve))
        }
        expect(wrong.splice(0)).toEqual([])
      },
    ),
    { numRuns: 400 },
  )
  // The steps met each other, or nothing has been shown.
  expect(hits).toBeGreaterThan(100)
  expect(collapsed).toBeGreaterThan(100)
  expect(furtherTakers).toBeGreaterThan(100)
})

const wrong: unknown[] = []

function failureOf(check: () => void): unknown[] {
  try {
    check()
    return []
  } catch (error) {
    return [error]
  }
}
