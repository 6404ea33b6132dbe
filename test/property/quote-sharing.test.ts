import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createPartition } from '../../src/client/partition.ts'
import { UpstreamFailure } from '../../src/http/failure.ts'
import {
  QuoteStage,
  type StagedAnswer,
  type StagedAsk,
  type StagedCall,
} from '../support/clients/quote-stage.ts'
import { createTestClock, quoteBody } from '../support/clients/quotes.ts'

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
        const stage = new QuoteStage({
          clock,
          partitionOf: createPartition({ mode: options, placeHeaders: ['x-place'] }),
          quotes: { cacheEntries: 4, refreshAheadMs },
        })
        const circles: string[] = []
        const asked: StagedAsk[] = []
        const open: StagedCall[] = []
        let seen = 0

        function settle(call: StagedCall, { doing, lifeMs, shared }: (typeof steps)[number]): void {
          if (doing === 'fail') call.fail(new Error('down'))
          else if (doing === 'time') call.fail(late)
          else {
            const amount = { assetId: 'ETH', value: call.target.split('=')[1] }
            const body = { id: circles[Number(call.by)], fromAmount: amount, expiry: clock.nowMs() + lifeMs }
            call.answer(quoteBody(body), { headers: shared ? [] : ['Vary', '*'] })
          }
        }

        function check(circle: string | undefined, { how, body, atMs }: StagedAnswer): void {
          if (how === 'hit') hits += 1
          if (how === 'collapsed') collapsed += 1
          const quote = JSON.parse(body)
          expect(quote.id).toBe(circle)
          // At this very instant: nothing is handed out that is over, but what came so from the provider.
          if (how !== 'bypass') expect(quote.expiry).toBeGreaterThan(atMs)
        }

        for (const now of steps) {
          if (now.doing === 'wait') clock.advance(now.waitMs)
          else if (now.doing === 'leave') asked[now.pick % Math.max(asked.length, 1)]?.leave()
          else if (now.doing !== 'ask') {
            const [call] = open.splice(now.pick % Math.max(open.length, 1), 1)
            if (call !== undefined) settle(call, now)
          } else {
            const { address, peerTrusted, place, amount, appName } = now.client
            const circle = circleOf(options, now.client)
            circles.push(circle)
            const headers = ['App-Name', appName, 'X-Place', place]
            const ask = stage.ask({ address, peerTrusted, amount, headers })
            asked.push(ask)
            ask.answer.then(
              (answer) => wrong.push(...failureOf(() => check(circle, answer))),
              () => {},
            )
          }
          await new Promise((resolve) => setImmediate(resolve))
          for (; seen < stage.calls.length; seen += 1) {
            const call = stage.calls[seen]
            if (call === undefined) continue
            open.push(call)
            // It asked before this step, and waited for another call until now.
            if (now.doing === 'time' && Number(call.by) < circles.length) furtherTakers += 1
          }
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
