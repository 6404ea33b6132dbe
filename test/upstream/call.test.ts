import fc from 'fast-check'
import type { Dispatcher } from 'undici'
import { describe, expect, test } from 'vitest'
import { systemTimers } from '../../src/clock.ts'
import { ClientGone, UpstreamFailure } from '../../src/http/failure.ts'
import { Problem } from '../../src/http/problem.ts'
import type { BreakerState, Permit } from '../../src/upstream/breakers.ts'
import { Call, reasonBytes } from '../../src/upstream/call.ts'
import type { Connection } from '../../src/upstream/connection.ts'
import type { ConnectionHolder } from '../../src/upstream/connections.ts'
import type { CallOutcome, CountedFailure } from '../../src/upstream/fault.ts'

const coded = (code: string) => Object.assign(new Error(code), { code })
const failure = (fault: UpstreamFailure['fault']) =>
  new UpstreamFailure('swap', { fault, maybeSeen: true })

interface Trial {
  method?: string
  body?: string | null
  retries?: number
  isTrial?: boolean
  isConnectionTrial?: boolean
  connections?: BreakerState
}

function permitInto(verdicts: string[], isTrial: boolean): Permit {
  return {
    isTrial,
    answerBegan() {},
    succeeded: () => verdicts.push('succeeded'),
    failed: () => verdicts.push('failed'),
    abandoned: () => verdicts.push('abandoned'),
  } as unknown as Permit
}

/** A call whose tries the test plays, as undici does, and everything that it reported. */
function call(options: Trial = {}) {
  const tries: Dispatcher.DispatchHandler[] = []
  /** Of the breaker of its kind, and of that of the connections. */
  const verdicts: string[] = []
  const connecting: string[] = []
  const outcomes: CallOutcome[] = []
  const counted: CountedFailure[] = []
  const told: string[] = []
  const connection = {
    isOpen: true,
    answerBytes: 0,
    expectAnswer() {
      this.answerBytes = 0
    },
    dispatch: (_request: unknown, handler: Dispatcher.DispatchHandler) =>
      tries.push(handler),
  }
  const connections = {
    state: options.connections ?? 'closed',
    close: () => void connecting.push('connected'),
  }
  const subject = new Call(
    {
      kind: 'other',
      method: options.method ?? 'GET',
      target: '/',
      headers: [],
      body: options.body ? Buffer.from(options.body) : null,
    },
    {
      onHead() {},
      onData: () => true,
      onEnd: (error) => told.push(error === undefined ? 'complete' : 'error'),
    },
    {
      lane: 'other',
      permit: permitInto(verdicts, options.isTrial ?? false),
      upstream: {
        name: 'swap',
        timers: systemTimers,
        url: new URL('http://127.0.0.1'),
        basePath: '',
        retries: options.retries ?? 1,
        waitMs: { 'float-order': 10_000, stream: 10_000, other: 10_000 },
        connections: {
          take: (caller: ConnectionHolder) =>
            caller.send(
              connection as unknown as Connection,
              permitInto(connecting, options.isConnectionTrial ?? false),
            ),
          lanes: { leave: () => false },
          giveBack() {},
        },
        breakers: { states: { connections } },
        callFailed: (what) => counted.push(what),
        callRetried: () => {},
        callEnded: (outcome) => outcomes.push(outcome),
      },
    },
  )
  subject.start()
  const latest = () => tries.at(-1) as Dispatcher.DispatchHandler
  const fail = (error: Error, answerBegan = false) => {
    if (answerBegan) connection.answerBytes += 1
    latest().onResponseError?.(controller, error)
    // The next try, if there is one, is sent in a turn of its own.
    return Promise.resolve()
  }
  const controller = {
    rawHeaders: [],
    abort: (reason: Error) => void fail(reason),
    resume() {},
  } as unknown as Dispatcher.DispatchController
  return {
    subject,
    tries,
    verdicts,
    connecting,
    outcomes,
    counted,
    told,
    fail,
    connect() {
      try {
        latest().onRequestStart?.(controller, {})
      } catch (error) {
        void fail(error as Error)
      }
    },
    giveUp: (reason: Error) => subject.giveUp(reason),
    head: (status: number) => latest().onResponseStart?.(controller, status, {}, ''),
    complete: () => latest().onResponseEnd?.(controller, {}),
  }
}

// In which order what happens is the property's below; these are the rules.
test.each([
  ['ECONNREFUSED', 2, 'failed'],
  ['ECONNRESET', 2, 'failed'],
  ['EHOSTUNREACH', 2, 'failed'],
  ['ENOTFOUND', 2, 'failed'],
  ['EAI_AGAIN', 2, 'failed'],
  ['UND_ERR_CONNECT_TIMEOUT', 1, 'failed'],
  ['CERT_HAS_EXPIRED', 1, 'failed'],
  ['EMFILE', 1, 'abandoned'],
  ['UND_ERR_INVALID_ARG', 1, 'abandoned'],
  ['UND_ERR_NOT_SUPPORTED', 1, 'abandoned'],
  ['UND_ERR_DESTROYED', 1, 'abandoned'],
])(
  'before a connection was there %s is tried %i times in all, then has %s for the connections and nothing for its kind',
  async (code, tries, verdict) => {
    for (const method of ['GET', 'POST']) {
      const it = call({ method, body: method === 'POST' ? '{}' : null })
      for (let count = 0; count < tries; count += 1) {
        expect(it.outcomes).toEqual([])
        await it.fail(coded(code))
      }
      const reports = [...Array(tries - 1).fill('abandoned'), verdict]
      expect([it.tries.length, it.connecting, it.told]).toEqual([
        tries,
        reports,
        ['error'],
      ])
      expect(it.verdicts).toEqual(['abandoned'])
    }
  },
)

describe('once it was written', () => {
  test.each([
    ['GET', null, false, 2],
    ['HEAD', null, false, 2],
    ['GET', null, true, 1],
    ['GET', 'a body', false, 1],
    ['OPTIONS', null, false, 1],
    ['POST', '{}', false, 1],
    ['DELETE', null, false, 1],
  ])(
    'a %s (body: %j, some byte of an answer: %j) whose connection dies is sent %i times',
    async (method, body, began, sent) => {
      const it = call({ method, body, retries: 1 })
      for (let count = 0; count < sent; count += 1) {
        it.connect()
        await it.fail(coded('ECONNRESET'), began)
      }
      expect([it.tries.length, it.told, it.verdicts]).toEqual([
        sent,
        ['error'],
        ['failed'],
      ])
      // Of the connections: it had one, each time.
      expect(it.connecting).toEqual(Array(sent).fill(['succeeded', 'connected']).flat())
    },
  )

  test.each([
    ['UND_ERR_HEADERS_TIMEOUT', undefined],
    ['HPE_INVALID_CONSTANT', undefined],
    ['ECONNRESET', 103],
    ['ECONNRESET', 200],
  ])('a GET is not sent again after %s (status: %j)', async (code, status) => {
    const it = call()
    it.connect()
    if (status !== undefined) it.head(status)
    await it.fail(coded(code))
    expect(it.tries).toHaveLength(1)
  })
})

test.each<[string, Trial, number]>([
  ['as often as retries says', { retries: 5 }, 6],
  ['not with retries=0', { retries: 0 }, 1],
  ["not as the trial of its kind's breaker", { isTrial: true }, 1],
  ["not as the trial of the connections' breaker", { isConnectionTrial: true }, 1],
  ['not while connections are stopped', { connections: 'open' }, 1],
])('a request is sent again %s', async (_when, options, tries) => {
  const it = call(options)
  for (let count = 0; count < tries; count += 1) await it.fail(coded('ECONNREFUSED'))
  expect([it.tries.length, it.told]).toEqual([tries, ['error']])
})

describe('for the breaker of its kind', () => {
  test.each([
    [500, 'succeeded'],
    [429, 'succeeded'],
    [502, 'failed'],
    [503, 'failed'],
    [504, 'failed'],
  ])('a %i has %s', (status, verdict) => {
    const it = call()
    it.connect()
    it.head(status)
    it.complete()
    expect(it.verdicts).toEqual([verdict])
  })

  test.each([
    [new ClientGone('left', { maybeSeen: true }), 'abandoned'],
    [new Problem('request-timeout', { detail: 'slow' }), 'abandoned'],
    [new Error('no request waits any more'), 'abandoned'],
    [failure('http_response_timeout'), 'failed'],
    [failure('http_response_body_size'), 'succeeded'],
  ])('a request that was given up because of %s has %s', (reason, verdict) => {
    const it = call()
    it.connect()
    it.giveUp(reason)
    expect([it.verdicts, it.tries.length]).toEqual([[verdict], 1])
    const unsent = call()
    unsent.giveUp(reason)
    unsent.connect()
    expect([unsent.verdicts, unsent.counted]).toEqual([['abandoned'], []])
  })
})

test('for any events in any order: one report to the breaker, one end, no extra try', async () => {
  const code = fc.constantFrom(
    'ECONNREFUSED',
    'ECONNRESET',
    'EMFILE',
    'UND_ERR_HEADERS_TIMEOUT',
    'UND_ERR_ABORTED',
  )
  const event = fc.oneof(
    fc.constant({ what: 'connect' as const }),
    fc.record({
      what: fc.constant('head' as const),
      status: fc.constantFrom(103, 200, 503),
    }),
    fc.constant({ what: 'complete' as const }),
    fc.record({ what: fc.constant('error' as const), code, began: fc.boolean() }),
    fc.constant({ what: 'give-up' as const }),
  )
  const method = fc.constantFrom('GET', 'POST')
  await fc.assert(
    fc.asyncProperty(
      method,
      fc.nat({ max: 3 }),
      fc.array(event, { maxLength: 20 }),
      async (verb, retries, events) => {
        const it = call({ method: verb, retries })
        let connected = 0
        for (const happening of events) {
          if (it.outcomes.length > 0) break
          if (happening.what === 'connect') {
            // undici begins each try once.
            if (connected === it.tries.length) continue
            it.connect()
            connected = it.tries.length
          } else if (happening.what === 'give-up')
            it.giveUp(new ClientGone('left', { maybeSeen: true }))
          else if (happening.what === 'error')
            await it.fail(coded(happening.code), happening.began)
          else if (connected !== it.tries.length) continue
          else if (happening.what === 'head') it.head(happening.status)
          else it.complete()
          if (verb === 'POST' && connected > 0) expect(it.tries.length).toBe(connected)
        }
        if (it.outcomes.length === 0) await it.fail(coded('UND_ERR_DESTROYED'))
        expect([it.verdicts.length, it.outcomes.length, it.told.length]).toEqual([
          1, 1, 1,
        ])
        // Each try reports once whether it got a connection. Only the last may have failed, and then counts nowhere else.
        const reports = it.connecting.filter((report) => report !== 'connected')
        expect(reports).toHaveLength(it.tries.length)
        expect(reports.slice(0, -1)).not.toContain('failed')
        if (reports.at(-1) === 'failed') expect(it.verdicts).toEqual(['abandoned'])
        expect(it.tries.length).toBeLessThanOrEqual(retries + 1)
      },
    ),
    { numRuns: 2_000 },
  )
})

describe('the bytes of a reason phrase', () => {
  test('are restored from what undici read as UTF-8', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme-composite' }), (reason) => {
        fc.pre(!reason.includes('\ufffd'))
        expect(Buffer.from(reasonBytes(reason), 'latin1').toString('utf8')).toBe(reason)
      }),
    )
  })

  test('are dropped if they were not UTF-8, because undici has mangled them', () =>
    expect(reasonBytes(Buffer.from('Non trouv\xe9', 'latin1').toString('utf8'))).toBe(''))
})
