import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Breaker, type BreakerState, type Permit } from '../../src/upstream/breakers.ts'

const openMs = 5_000

function breakerOf(failures: number, minFailingMs = 0) {
  let nowMs = 1_000_000
  const states: BreakerState[] = []
  const breaker = new Breaker('connections', {
    failures,
    minFailingMs,
    openMs,
    nowMs: () => nowMs,
    onChange: ({ state }) => states.push(state),
  })
  return {
    breaker,
    states,
    advance: (ms: number) => {
      nowMs += ms
    },
    admitted(): Permit {
      const permit = breaker.admit()
      if (permit === undefined) throw new Error('no request was let out')
      return permit
    },
    fail(times: number) {
      for (let count = 0; count < times; count += 1) this.admitted().failed()
    },
  }
}

describe('a closed breaker', () => {
  test('opens at the last of breakerFailures failures in a row, not before', () => {
    const at = breakerOf(3)
    at.fail(2)
    expect(at.breaker.state).toBe('closed')
    at.fail(1)
    expect(at.breaker.state).toBe('open')
  })

  test('opens only once the first failure in a row is a second old, however many there are', () => {
    const at = breakerOf(3, 1_000)
    at.fail(100)
    at.advance(999)
    at.fail(100)
    expect(at.breaker.state).toBe('closed')
    at.advance(1)
    at.fail(1)
    expect(at.breaker.state).toBe('open')
  })

  test('counts that second from the end of the first failure, not from the last success', () => {
    const at = breakerOf(3, 1_000)
    at.fail(1)
    at.advance(5_000)
    at.admitted().succeeded()
    at.advance(5_000)
    at.fail(100)
    expect(at.breaker.state).toBe('closed')
  })

  test('is not opened by failures that all end within a second while successes come between', () => {
    const at = breakerOf(5, 1_000)
    for (let burst = 0; burst < 100; burst += 1) {
      at.fail(6)
      at.advance(100)
      at.admitted().succeeded()
      at.advance(900)
    }
    expect(at.breaker.state).toBe('closed')
  })

  describe('while a request is unanswered that was sent longer ago than the failures took', () => {
    function failingBeside(olderMs: number) {
      const at = breakerOf(3, 1_000)
      const older = at.admitted()
      at.advance(olderMs)
      at.fail(3)
      at.advance(2_499)
      at.fail(3)
      expect(at.breaker.state).toBe('closed')
      return { at, older }
    }

    test('waits for it until its first failure in a row is two and a half seconds old', () => {
      const { at } = failingBeside(1)
      at.advance(1)
      at.fail(1)
      expect(at.breaker.state).toBe('open')
    })

    test('opens no more if it succeeds', () => {
      const { at, older } = failingBeside(1)
      older.succeeded()
      at.advance(1)
      at.fail(3)
      expect(at.breaker.state).toBe('closed')
    })

    test.each(['failed', 'abandoned', 'answerBegan'] as const)('waits no longer once it %s', (how) => {
      const { at, older } = failingBeside(1)
      older[how]()
      at.breaker.admit()?.failed()
      expect(at.breaker.state).toBe('open')
    })
  })

  test('waits for no request that was sent later than one that failed as slowly', () => {
    const at = breakerOf(3, 1_000)
    const sent = Array.from({ length: 40 }, () => {
      at.advance(100)
      return at.admitted()
    })
    // Each fails after four seconds.
    for (const [index, permit] of sent.entries()) {
      permit.failed()
      expect(at.breaker.state).toBe(index < 10 ? 'closed' : 'open')
      at.advance(100)
    }
  })

  test('opens with the last of breakerFailures failures that are rare', () => {
    const at = breakerOf(3, 1_000)
    for (const expected of ['closed', 'closed', 'open']) {
      at.advance(60_000)
      at.fail(1)
      expect(at.breaker.state).toBe(expected)
    }
  })

  test('resets its count after each success', () => {
    const at = breakerOf(3)
    for (let round = 0; round < 4; round += 1) {
      at.fail(2)
      at.admitted().succeeded()
    }
    expect(at.breaker.state).toBe('closed')
  })

  test('takes a client that left for neither a failure nor a success', () => {
    const at = breakerOf(3)
    at.fail(2)
    at.admitted().abandoned()
    expect(at.breaker.state).toBe('closed')
    at.fail(1)
    expect(at.breaker.state).toBe('open')
  })

  test('lets every request out', () => {
    expect(breakerOf(3).breaker.retryAfterMs).toBe(0)
  })
})

describe('an open breaker', () => {
  test('lets no request out for breakerOpenMs and says how long that still is', () => {
    const at = breakerOf(1)
    at.fail(1)
    at.advance(openMs - 1)
    expect(at.breaker.admit()).toBeUndefined()
    expect(at.breaker.retryAfterMs).toBe(1)
  })

  test('then lets out one request, and no other for breakerOpenMs unless that one has reported', () => {
    const at = breakerOf(1)
    at.fail(1)
    at.advance(openMs)
    expect(at.admitted().isTrial).toBe(true)
    at.advance(openMs - 1)
    expect([at.breaker.admit(), at.breaker.admit()]).toEqual([undefined, undefined])
    at.advance(1)
    expect(at.admitted().isTrial).toBe(true)
    expect(at.breaker.admit()).toBeUndefined()
    expect(at.states).toEqual(['open', 'half-open'])
  })

  test('closes when that request succeeds, and opens for the same time again when it fails', () => {
    const at = breakerOf(3)
    at.fail(3)
    at.advance(openMs)
    at.admitted().failed()
    expect(at.breaker.retryAfterMs).toBe(openMs)
    at.advance(openMs)
    at.admitted().succeeded()
    expect(at.states).toEqual(['open', 'half-open', 'open', 'half-open', 'closed'])
    at.fail(2)
    expect(at.breaker.state).toBe('closed')
  })

  test('closes as soon as a good answer to the trial begins, however long the rest of it takes', () => {
    const at = breakerOf(2)
    at.fail(2)
    at.advance(openMs)
    const trial = at.admitted()
    trial.answerBegan()
    expect(at.breaker.state).toBe('closed')
    trial.failed()
    expect(at.breaker.state).toBe('closed')
    at.fail(1)
    expect(at.breaker.state).toBe('open')
  })

  test('lets out another request at once if the client of the trial leaves', () => {
    const at = breakerOf(1)
    at.fail(1)
    at.advance(openMs)
    at.admitted().abandoned()
    expect(at.admitted().isTrial).toBe(true)
  })

  test('is not closed by the late success of an earlier request', () => {
    const at = breakerOf(1)
    const early = at.admitted()
    at.fail(1)
    early.succeeded()
    expect(at.breaker.state).toBe('open')
  })

  test('once closed again does not count the late failures of earlier requests', () => {
    const at = breakerOf(2)
    const early = [at.admitted(), at.admitted(), at.admitted()]
    at.fail(2)
    at.advance(openMs)
    at.admitted().succeeded()
    for (const permit of early) permit.failed()
    expect(at.breaker.state).toBe('closed')
  })
})

describe('a trial that took longer than breakerOpenMs, so that a second one was let out', () => {
  function twoTrials() {
    const at = breakerOf(1)
    at.fail(1)
    at.advance(openMs)
    const late = at.admitted()
    at.advance(openMs)
    return { at, late, second: at.admitted() }
  }

  test.each(['failed', 'abandoned'] as const)('changes nothing when it has %s', (how) => {
    const { at, late, second } = twoTrials()
    late[how]()
    expect([at.breaker.state, at.breaker.admit()]).toEqual(['half-open', undefined])
    second.succeeded()
    expect(at.breaker.state).toBe('closed')
  })

  test.each(['succeeded', 'answerBegan'] as const)('ends the outage when it has %s', (how) => {
    const { at, late, second } = twoTrials()
    late[how]()
    expect(at.breaker.state).toBe('closed')
    second.failed()
    expect(at.breaker.state).toBe('closed')
  })

  test('ends the outage also after the second one has failed', () => {
    const { at, late, second } = twoTrials()
    second.failed()
    expect(at.breaker.retryAfterMs).toBe(openMs)
    late.answerBegan()
    expect(at.breaker.state).toBe('closed')
    late.failed()
    expect(at.breaker.state).toBe('open')
  })

  test.each(['succeeded', 'answerBegan', 'failed', 'abandoned'] as const)(
    'changes nothing in a later outage when it has %s',
    (how) => {
      const { at, late, second } = twoTrials()
      second.succeeded()
      at.fail(1)
      late[how]()
      expect([at.breaker.state, at.breaker.retryAfterMs]).toEqual(['open', openMs])
    },
  )
})

describe('closed by another request than its trial', () => {
  test('it lets all requests out, and ignores the end of its trial', () => {
    const at = breakerOf(1)
    at.fail(1)
    at.advance(openMs)
    const trial = at.admitted()
    at.breaker.close()
    expect(at.admitted().isTrial).toBe(false)
    trial.failed()
    trial.answerBegan()
    expect(at.states).toEqual(['open', 'half-open', 'closed'])
  })

  test('it starts to count again, as after any success', () => {
    const at = breakerOf(2)
    at.fail(1)
    at.breaker.close()
    at.fail(1)
    expect(at.breaker.state).toBe('closed')
    at.fail(1)
    expect(at.breaker.state).toBe('open')
  })
})

type Ending = 'succeeded' | 'failed' | 'abandoned'
const step = fc.oneof(
  fc.record({ what: fc.constant('admit' as const) }),
  fc.record({ what: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 2 * openMs }) }),
  fc.record({
    what: fc.constant('end' as const),
    which: fc.nat(),
    how: fc.constantFrom<Ending>('succeeded', 'failed', 'failed', 'abandoned'),
    answering: fc.boolean(),
  }),
)

test('in any order of events one more request tries in each breakerOpenMs, and no trial is ever lost', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4 }), fc.array(step, { maxLength: 120 }), (failures, steps) => {
      const at = breakerOf(failures)
      const out: Permit[] = []
      let latest: Permit | undefined
      let sinceLatestMs = 0
      for (const event of steps) {
        const before = at.breaker.state
        if (event.what === 'wait') {
          at.advance(event.ms)
          sinceLatestMs += event.ms
        } else if (event.what === 'admit') {
          const isAlone = latest === undefined || !out.includes(latest) || sinceLatestMs >= openMs
          const mayTry = before !== 'closed' && at.breaker.retryAfterMs === 0 && isAlone
          const permit = at.breaker.admit()
          expect(permit !== undefined).toBe(before === 'closed' || mayTry)
          expect(permit?.isTrial ?? false).toBe(mayTry)
          if (permit) out.push(permit)
          if (mayTry) {
            latest = permit
            sinceLatestMs = 0
          }
        } else if (out.length > 0) {
          const [permit] = out.splice(event.which % out.length, 1)
          if (event.answering && !permit?.isTrial) permit?.answerBegan()
          permit?.[event.how]()
          const mayDecide = permit === latest || (permit?.isTrial && event.how === 'succeeded')
          if (!mayDecide && before !== 'closed') expect(at.breaker.state).toBe(before)
        }
      }
      for (const permit of out) permit.abandoned()
      at.advance(openMs)
      at.admitted().succeeded()
      expect(at.breaker.state).toBe('closed')
    }),
    { numRuns: 2_000 },
  )
})

test('a breaker opens exactly when breakerFailures requests have failed in a row, the first a second before the last', () => {
  const ending = fc.record({
    how: fc.constantFrom<Ending>('succeeded', 'failed', 'failed', 'failed', 'failed', 'failed', 'abandoned'),
    afterMs: fc.constantFrom(0, 100, 400),
  })
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5 }), fc.array(ending, { maxLength: 60 }), (failures, endings) => {
      const at = breakerOf(failures, 1_000)
      let row: number[] = []
      let sinceMs = 0
      let isOpen = false
      for (const { how, afterMs } of endings) {
        at.advance(afterMs)
        sinceMs += afterMs
        at.breaker.admit()?.[how]()
        if (how === 'succeeded') row = []
        if (how === 'failed') row.push(sinceMs)
        const [first = sinceMs] = row
        isOpen ||= how === 'failed' && row.length >= failures && sinceMs - first >= 1_000
        expect(at.breaker.state === 'closed').toBe(!isOpen)
        if (isOpen) return
      }
    }),
    { numRuns: 2_000 },
  )
})
