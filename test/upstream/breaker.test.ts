import { describe, expect, test } from 'vitest'
import {
  Breaker,
  type BreakerState,
  Breakers,
  type Permit,
  refusedPairs,
} from '../../src/upstream/breakers.ts'

const openMs = 5_000

const ends = {
  fails: 'failed',
  succeeds: 'succeeded',
  leaves: 'abandoned',
  begins: 'answerBegan',
} as const

/**
 * Plays a story, word by word. `fails`, `succeeds` and `leaves` are each a request that is let out and ends at once. `A` is
 * let out and stays, until `A.fails` and the like; `A.begins` is when a good answer to it begins. `refused`: no request is
 * let out. `trial` is the next one's name: it has to be one that tries. `+999` lets so many milliseconds pass; `closed`,
 * `open` and `half-open` are what the breaker has to be then. `3*fails` is three times the same.
 */
function play(story: string, { failures = 3, minFailingMs = 0 } = {}) {
  let nowMs = 1_000_000
  const states: BreakerState[] = []
  const onChange = ({ state }: { state: BreakerState }) => states.push(state)
  const breaker = new Breaker('connections', {
    failures,
    minFailingMs,
    openMs,
    nowMs: () => nowMs,
    onChange,
  })
  const out = new Map<string, Permit>()

  function letOut(what: string): Permit {
    const permit = breaker.admit()
    if (permit === undefined)
      throw new Error(`no request is let out for ${what} of: ${story}`)
    return permit
  }
  function step(word: string): void {
    const [name = '', end] = word.split('.') as [string, keyof typeof ends | undefined]
    if (end !== undefined) out.get(name)?.[ends[end]]()
    else if (name in ends) letOut(word)[ends[name as keyof typeof ends]]()
    else if (name.startsWith('+')) nowMs += Number(name)
    else if (name === 'refused') expect(breaker.admit(), story).toBeUndefined()
    else if (name === 'closes') breaker.close()
    else if (/^[A-Z]$/.test(name)) {
      const permit = letOut(word)
      expect([story, name, permit.isTrial]).toEqual([story, name, /[T-Z]/.test(name)])
      out.set(name, permit)
    } else expect([story, breaker.state]).toEqual([story, name])
  }
  for (const word of story.split(' ')) {
    const [, times = '1', rest = ''] = /^(?:(\d+)\*)?(.+)$/.exec(word) ?? []
    for (let time = 0; time < Number(times); time += 1) step(rest)
  }
  return { breaker, states }
}

// The model in test/property/breakers.test.ts plays these rules in any order, save for answers that begin.
describe('a closed breaker', () => {
  // A provider that sheds a third of its load is often slow for the rest: its first success comes later than a second.
  const beside = 'A +1 3*fails +2499 3*fails closed'
  test.each([
    [
      'opens once its failures in a row are a second old, not before',
      '100*fails +999 fails closed +1 fails open',
    ],
    [
      'counts that second from the end of the first failure',
      'fails +5000 succeeds +5000 100*fails closed',
    ],
    [
      'opens at the last of failures that are rare',
      '+60000 fails +60000 fails closed +60000 fails open',
    ],
    [
      'counts a caller that left as neither',
      'fails leaves +1000 fails leaves closed fails open',
    ],
    [
      'waits longer for a request that was sent before and is unanswered',
      `${beside} +1 fails open`,
    ],
    ['waits no longer once the answer to it begins', `${beside} A.begins fails open`],
    ['opens no more if it succeeds', `${beside} A.succeeds +1 2*fails closed`],
  ])('%s', (_rule, story) => void play(story, { minFailingMs: 1_000 }))
})

describe('an open breaker', () => {
  const two = 'fails +5000 T +5000 U'
  test.each([
    [
      'lets one request out after breakerOpenMs, a second one if that takes long',
      `fails +4999 refused +1 T +4999 refused +1 U`,
    ],
    ['closes when that request succeeds', 'fails +5000 T half-open T.succeeds closed'],
    [
      'opens for the same time again when it fails',
      'fails +5000 T T.fails open +4999 refused +1 T T.succeeds closed',
    ],
    ['lets another one out at once if its caller leaves', 'fails +5000 T T.leaves U'],
    [
      'is not closed by the late success of an earlier request',
      'A fails A.succeeds open',
    ],
    [
      'is closed when a good answer begins; its failure counts as any other',
      'fails +5000 T T.begins closed T.fails open',
    ],
    [
      'takes no failure of the first of two trials',
      `${two} T.fails half-open refused U.succeeds closed`,
    ],
    [
      'is closed by the first of two trials, and ignores the second',
      `${two} T.begins closed U.fails closed`,
    ],
    [
      'is closed by the first also after the second has failed',
      `${two} U.fails open T.begins closed T.fails open`,
    ],
    [
      'ignores in a later outage the trials of an earlier one',
      `${two} U.succeeds fails +1 T.begins open +4998 refused`,
    ],
    [
      'ignores its trial once another request has closed it',
      'fails +5000 T closes A T.fails T.begins closed',
    ],
  ])('%s', (_rule, story) => void play(story, { failures: 1 }))

  test('once closed again does not count the late failures of earlier requests', () => {
    play('A B C 2*fails +5000 succeeds A.fails B.fails C.fails closed fails closed', {
      failures: 2,
    })
  })

  test('says how long it stays open, and each change once', () => {
    expect(play('2*fails').breaker.retryAfterMs).toBe(0)
    expect(play('3*fails +4999').breaker.retryAfterMs).toBe(1)
    expect(play('3*fails +5000 fails').breaker.retryAfterMs).toBe(openMs)
    const states = ['open', 'half-open', 'open', 'half-open', 'closed']
    expect(play('3*fails +5000 fails +5000 succeeds').states).toEqual(states)
  })
})

test('the breakers of pairs with long and many invented names do not fill memory', () => {
  const limits = {
    failures: 2,
    minFailingMs: 0,
    openMs,
    nowMs: () => 1_000_000,
    onChange() {},
  }
  const breakers = new Breakers(true, limits)
  const long = `BAD${'x'.repeat(6_000)}`
  for (let time = 0; time < 2; time += 1)
    breakers.of({ quoteOf: long })?.admit()?.failed()
  const isRefused = (pair: string) => breakers.of({ quoteOf: pair })?.admits() === false
  expect([long, `${long}y`].map(isRefused)).toEqual([true, false])
  expect(refusedPairs(breakers).map(({ length }) => length)).toEqual([64])
  for (let count = 0; count < 1_000; count += 1)
    breakers.of({ quoteOf: `P${count}` })?.admit()
  // It was asked for longest ago, so it has been forgotten.
  expect([breakers.pairs.length, refusedPairs(breakers)]).toEqual([1_000, []])
})
