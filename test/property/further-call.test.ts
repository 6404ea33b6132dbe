import fc from 'fast-check'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { systemTimers } from '../../src/clock.ts'
import { UpstreamFailure } from '../../src/http/failure.ts'
import { QuoteStage, type StagedCall } from '../support/clients/quote-stage.ts'
import { createTestClock } from '../support/clients/quotes.ts'

const totalMs = 1_000
const minLeftMs = 50

const step = fc.record({
  doing: fc.constantFrom(
    ...(['ask', 'ask', 'ask', 'leave', 'wait', 'wait', 'time', 'time', 'fail'] as const),
    ...(['answer', 'mine', 'refuse', 'refuse', 'amount'] as const),
  ),
  address: fc.constantFrom('x', 'y', 'z'),
  /** Two spellings of one amount. */
  target: fc.constantFrom('1000', '1000', '1e3'),
  key: fc.constantFrom('a', 'a', 'a', 'b'),
  pick: fc.nat(7),
  waitMs: fc.constantFrom(1, 49, 50, 300, 950, 951, 1_000),
})
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never
type End = Exclude<Step['doing'], 'ask' | 'leave' | 'wait'>

interface ModelRequest {
  address: string
  target: string
  key: string
  joinedAfterRefusal: boolean
  endsAtMs: number
  tookFurther: boolean
  /** It waits for a second call, and only until `endsAtMs`. */
  isLimited: boolean
  /** What it is answered when its own time is over. */
  failure: string
  /** How its waiting ended. */
  fate: string
}

const fresh = {
  tookFurther: false,
  joinedAfterRefusal: false,
  isLimited: false,
  failure: 'over',
  fate: '',
}

interface ModelCall {
  number: number
  beginner: ModelRequest
  waiting: ModelRequest[]
  aborted: boolean
}

/** Who waits for which call, as the promise is worded, with lists alone. */
function createModel() {
  const calls: ModelCall[] = []
  const table = new Map<string, ModelCall>()

  function begin(request: ModelRequest): ModelCall {
    const call = {
      number: calls.length,
      beginner: request,
      waiting: [request],
      aborted: false,
    }
    calls.push(call)
    return call
  }

  /** `entry`: which call the request shares. */
  function ask(request: ModelRequest, entry = request.key): void {
    const underWay = table.get(entry)
    if (underWay === undefined) table.set(entry, begin(request))
    else underWay.waiting.push(request)
  }

  function land(call: ModelCall): ModelRequest[] {
    for (const [entry, underWay] of table) if (underWay === call) table.delete(entry)
    return call.waiting.splice(0)
  }

  function leave(request: ModelRequest, fate: string): void {
    const call = calls.find(({ waiting }) => waiting.includes(request))
    if (call === undefined) return
    request.fate = fate
    call.waiting = call.waiting.filter((other) => other !== request)
    if (call.waiting.length > 0) return
    call.aborted = true
    land(call)
  }

  /** Neither another user's refusal, nor a quote for the amount as another spelling was read. */
  function isFor(
    request: ModelRequest,
    how: End,
    { target, address }: ModelRequest,
  ): boolean {
    if (how === 'refuse') return request.target === target && request.address === address
    return how !== 'amount' || request.target === target
  }

  function end(call: ModelCall, how: End, nowMs: number): void {
    for (const [index, request] of land(call).entries()) {
      const hasTime = request.endsAtMs - nowMs >= minLeftMs
      if (!isFor(request, how, call.beginner)) {
        request.isLimited = true
        request.failure = 'over'
        if (!hasTime) request.fate = 'over'
        // After two refusals to others, with its like alone.
        else if (request.joinedAfterRefusal)
          ask(request, `${request.key} ${request.address} ${request.target}`)
        else {
          request.joinedAfterRefusal = true
          ask(request)
        }
      } else if (how === 'mine' && index > 0) {
        request.isLimited = true
        request.failure = 'over'
        if (hasTime) begin(request)
        else request.fate = 'over'
      } else if (how !== 'time') request.fate = `${how} ${call.number}`
      else if (request === call.beginner || request.tookFurther || !hasTime)
        request.fate = `time ${call.number}`
      else {
        request.tookFurther = true
        request.isLimited = true
        request.failure = `time ${call.number}`
        ask(request)
      }
    }
  }

  return { calls, ask, leave, end }
}

beforeEach(
  () => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }),
)
afterEach(() => void vi.useRealTimers())

/** The real route, whose provider ends calls as the steps say. */
function createStage() {
  const stage = new QuoteStage({
    clock: { ...createTestClock(), timers: systemTimers },
    totalTimeoutMs: totalMs,
  })
  const { calls } = stage
  const fates: string[] = []
  const leaves: (() => void)[] = []

  function end(call: StagedCall, how: End): void {
    const number = calls.indexOf(call)
    const late = number % 2 === 0 ? 'http_response_timeout' : 'connection_timeout'
    const fault = how === 'time' ? late : 'connection_terminated'
    const mark = `${how} ${number}`
    if (how === 'time' || how === 'fail')
      call.fail(new UpstreamFailure('swap', { fault, maybeSeen: true, cause: mark }))
    else if (how === 'refuse')
      call.answer(JSON.stringify({ mark }), {
        status: [400, 403, 404, 451][number % 4] as number,
      })
    // What is not a quote is not kept, so that every request has to wait.
    else if (how === 'amount') call.answer(JSON.stringify({ mark, ...otherAmount }))
    else
      call.answer(JSON.stringify({ mark }), {
        headers: how === 'mine' ? ['Vary', '*'] : [],
      })
  }

  function ask({ key, address, target }: ModelRequest): void {
    const request = fates.length
    fates.push('')
    const { answer, leave } = stage.ask({
      address,
      amount: target,
      headers: ['App-Name', key],
    })
    leaves.push(() => {
      fates[request] ||= 'left'
      leave()
    })
    answer.then(
      ({ body }) => {
        fates[request] ||= JSON.parse(body).mark
      },
      (error) => {
        // A request that waited for a further call keeps the failure of the first one as the cause of its own.
        const mark = error.cause instanceof Error ? error.cause.cause : error.cause
        fates[request] ||= typeof mark === 'string' ? mark : 'over'
      },
    )
  }

  return { calls, fates, leaves, ask, end }
}

const otherAmount = {
  id: 'other',
  pairId: 'ETH_USDC',
  fromAmount: { assetId: 'ETH', value: '1' },
  toAmount: { assetId: 'USDC', value: '3' },
}

/** Four requests that share a call and another's refusal twice: the last two have nothing in common after it. */
const plain = { address: 'x', target: '1000', key: 'a', pick: 0, waitMs: 1 } as const
const refusedTwice: Step[] = [
  { doing: 'ask', ...plain },
  { doing: 'ask', ...plain, address: 'y' },
  { doing: 'ask', ...plain, address: 'z' },
  { doing: 'ask', ...plain, target: '1e3' },
  { doing: 'refuse', ...plain },
  { doing: 'refuse', ...plain },
]

const turn = () => new Promise((resolve) => setImmediate(resolve))

it('the requests of each call are those that the promise names, and every request gets the right answer', async () => {
  let furtherCalls = 0
  let afterRefusals = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 40, maxLength: 100 }), async (steps) => {
      const model = createModel()
      const real = createStage()
      const requests: ModelRequest[] = []
      for (const { doing, key, address, target, pick, waitMs } of steps) {
        const nowMs = performance.now()
        if (doing === 'ask') {
          const request = { key, address, target, endsAtMs: nowMs + totalMs, ...fresh }
          requests.push(request)
          model.ask(request)
          real.ask(request)
        } else if (doing === 'leave') {
          const request = requests.at(-1 - pick)
          if (request !== undefined) {
            model.leave(request, 'left')
            real.leaves[requests.indexOf(request)]?.()
          }
        } else if (doing === 'wait') {
          for (const request of requests)
            if (request.isLimited && request.endsAtMs <= nowMs + waitMs)
              model.leave(request, request.failure)
          vi.advanceTimersByTime(waitMs)
        } else {
          const open = model.calls.filter(({ waiting }) => waiting.length > 0)
          const call = open[pick % Math.max(open.length, 1)]
          if (call !== undefined) {
            model.end(call, doing, nowMs)
            const staged = real.calls[call.number]
            if (staged !== undefined) real.end(staged, doing)
          }
        }
        await turn()
        await turn()
        const begun = model.calls.map(({ beginner }) => requests.indexOf(beginner))
        const expected = { fates: requests.map(({ fate }) => fate), begun }
        expect({
          fates: real.fates,
          begun: real.calls.map(({ by }) => Number(by)),
        }).toEqual(expected)
      }
      expect(real.calls.map(({ isGivenUp }) => isGivenUp)).toEqual(
        model.calls.map(({ aborted }) => aborted),
      )
      furtherCalls += model.calls.filter(({ beginner }) => beginner.tookFurther).length
      afterRefusals += model.calls.filter(
        ({ beginner }) => beginner.joinedAfterRefusal,
      ).length
      // With all requests gone, no call and no timer is left.
      for (const leave of real.leaves) leave()
      await turn()
      await turn()
      expect(vi.getTimerCount()).toBe(0)
    }),
    { numRuns: 500, examples: [[refusedTwice]] },
  )
  // The steps met each other, or nothing has been shown.
  expect(furtherCalls).toBeGreaterThan(100)
  expect(afterRefusals).toBeGreaterThan(100)
})
