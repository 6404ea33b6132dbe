import { describe, expect, test } from 'vitest'
import {
  Breaker,
  type BreakerState,
  Breakers,
  type Permit,
  refusedPairs,
} from '../../src/upstream/breakers.ts'

const openMs = 5_000

const ends = { fails: 'failed', succeeds: 'succeeded', leaves: 'abandoned', begins: 'answerBegan' } as const

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
  const breaker = new Breaker('connections', { failures, minFailingMs, openMs, nowMs: () => nowMs, onChange })
  const out = new Map<string, Permit>()

  function letOut(what: string): Permit {
    const permit = breaker.admit()
    if (permit === undefined) throw new Error(`no request is let out for ${what} of: ${story}`)
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

// The model in test/property/breakers.test.ts plays the same rules in any order.
describe('a closed breaker', () => {
  test.each([
    ['opens at the last of breakerFailures failures in a row, not before', '2*fails closed fails open'],
    ['resets its count after each success', '2*fails succeeds 2*fails succeeds 2*fails closed'],
    ['takes a client that left for neither', '2*fails leaves closed fails open'],
  ])('%s', (_rule, story) => void play(story))

  test.each([
    [
      'opens only once the first failure in a row is a second old',
      '100*fails +999 100*fails closed +1 fails open',
    ],
    ['counts that second from the end of the first failure', 'fails +5000 succeeds +5000 100*fails closed'],
    [
      'opens with the last of failures that are rare',
      '+60000 fails closed +60000 fails closed +60000 fails open',
    ],
    [
      'is not opened by bursts with a success between',
      '6*fails +100 succeeds +900 6*fails +100 succeeds closed',
    ],
  ])('%s', (_rule, story) => void play(story, { minFailingMs: 1_000 }))

  // A provider that sheds a third of its load is often slow for the rest: its first success comes later than a second.
  const beside = 'A +1 3*fails +2499 3*fails closed'
  test.each([
    [
      'waits for two and a half seconds while a request that was sent before is unanswered',
      `${beside} +1 fails open`,
    ],
    ['opens no more if that request succeeds', `${beside} A.succeeds +1 2*fails closed`],
    ['waits no longer once it fails', `${beside} A.fails open`],
    ['waits no longer once its client leaves', `${beside} A.leaves fails open`],
    ['waits no longer once its answer begins', `${beside} A.begins fails open`],
    [
      'waits for no request that was sent later',
      'A +600 B +600 C +600 A.fails +600 B.fails D +600 C.fails open',
    ],
  ])('%s', (_rule, story) => void play(story, { minFailingMs: 1_000 }))
})

describe('an open breaker', () => {
  test.each([
    [
      'lets one request out after breakerOpenMs, and another one if that has not reported for as long again',
      'fails +4999 refused +1 T +4999 2*refused +1 U refused half-open',
    ],
    ['closes when that request succeeds, and counts from the beginning', 'fails +5000 T T.succeeds closed'],
    [
      'opens for the same time again when it fails',
      'fails +5000 T T.fails open +4999 refused +1 T T.succeeds closed',
    ],
    ['lets another one out at once if the client of the trial leaves', 'fails +5000 T T.leaves U'],
    ['is not closed by the late success of an earlier request', 'A fails A.succeeds open'],
  ])('%s', (_rule, story) => void play(story, { failures: 1 }))

  test('closes as soon as a good answer to the trial begins, however long the rest of it takes', () => {
    play('2*fails +5000 T T.begins closed T.fails closed fails open', { failures: 2 })
  })

  test('once closed again does not count the late failures of earlier requests', () => {
    play('A B C 2*fails +5000 succeeds A.fails B.fails C.fails closed fails closed', { failures: 2 })
  })

  test('says how long it stays open, and each change once', () => {
    expect(play('2*fails').breaker.retryAfterMs).toBe(0)
    expect(play('3*fails +4999').breaker.retryAfterMs).toBe(1)
    const again = play('3*fails +5000 fails')
    expect(again.breaker.retryAfterMs).toBe(openMs)
    expect(play('3*fails +5000 fails +5000 succeeds').states).toEqual([
      ...['open', 'half-open', 'open', 'half-open', 'closed'],
    ])
  })
})

describe('a trial that took longer than breakerOpenMs, so that a second one was let out', () => {
  const two = 'fails +5000 T +5000 U'
  test.each([
    ['changes nothing when it fails', `${two} T.fails half-open refused U.succeeds closed`],
    ['changes nothing when its client leaves', `${two} T.leaves half-open refused U.succeeds closed`],
    ['ends the outage when it succeeds', `${two} T.succeeds closed U.fails closed`],
    ['ends the outage when its answer begins', `${two} T.begins closed U.fails closed`],
    [
      'ends the outage also after the second one has failed',
      `${two} U.fails open T.begins closed T.fails open`,
    ],
    ...['succeeds', 'begins', 'fails', 'leaves'].map((end) => [
      `${end}, and changes nothing in a later outage`,
      `${two} U.succeeds fails +1 T.${end} open +4998 refused +1 V`,
    ]),
  ])('%s', (_rule, story) => void play(story ?? '', { failures: 1 }))
})

describe('closed by another request than its trial', () => {
  test('it lets all requests out, and ignores the end of its trial', () => {
    const { states } = play('fails +5000 T closes A T.fails T.begins closed', { failures: 1 })
    expect(states).toEqual(['open', 'half-open', 'closed'])
  })

  test('it starts to count again, as after any success', () => {
    play('fails closes fails closed fails open', { failures: 2 })
  })
})

describe('failing pairs', () => {
  function pairs() {
    const limits = { failures: 2, minFailingMs: 0, openMs, nowMs: () => 1_000_000, onChange() {} }
    const breakers = new Breakers(true, limits)
    const fail = (pair: string) => {
      for (let time = 0; time < 2; time += 1) breakers.admit({ quoteOf: pair })?.failed()
    }
    return {
      breakers,
      fail,
      isRefused: (pair: string) => breakers.refusal({ quoteOf: pair })?.name === 'pair',
    }
  }

  // Five failing pairs used to stop the quotes of all.
  test('stop no other pair, however many they are', () => {
    const { breakers, fail, isRefused } = pairs()
    const bad = Array.from({ length: 20 }, (_none, index) => `BAD${index}`)
    for (const pair of bad) fail(pair)
    expect(refusedPairs(breakers)).toEqual(expect.arrayContaining(bad))
    expect([...bad, 'X'].map(isRefused)).toEqual([...bad.map(() => true), false])
  })

  test('with long and many invented names do not fill memory', () => {
    const { breakers, fail, isRefused } = pairs()
    const long = `BAD${'x'.repeat(6_000)}`
    fail(long)
    expect([long, `${long}y`].map(isRefused)).toEqual([true, false])
    expect(refusedPairs(breakers).map(({ length }) => length)).toEqual([64])
    for (let count = 0; count < 1_000; count += 1) breakers.admit({ quoteOf: `P${count}` })
    // It was asked for longest ago, so it has been forgotten.
    expect([breakers.pairs.length, refusedPairs(breakers)]).toEqual([1_000, []])
  })
})
