import { expect, it } from 'vitest'
import { createCoolDowns, type Pass } from '../../src/quotes/cool-downs.ts'
import { createTestClock } from '../support/clients/quotes.ts'

function coolDowns() {
  const clock = createTestClock()
  const events: string[] = []
  const created = createCoolDowns({
    clock,
    observer: {
      began: ({ scope, leftMs }) => events.push(`${scope} for ${leftMs}`),
      ended: ({ scope, lastedMs }) => events.push(`${scope} after ${lastedMs}`),
    },
  })
  const client = (address: string, application = 'web') => ({
    application,
    credentials: application,
    address,
  })
  const refuse = (address: string, retryAfterMs?: number) =>
    created.admit(client(address)).answered({ retryAfterMs })
  const scopes = () => created.list().map(({ scope }) => scope)
  return { ...created, clock, events, client, refuse, scopes }
}

it("the result of an application's trial counts for all its addresses", () => {
  const { refuse, admit, client, clock, refusal, events } = coolDowns()
  refuse('a', 2_000)
  refuse('b', 2_000)
  clock.advance(2_000)
  refuse('c', 5_000)
  expect(refusal(client('d'))).toMatchObject({ scope: 'application', leftMs: 5_000 })
  clock.advance(5_000)
  admit(client('d')).answered('succeeded')
  expect(refusal(client('e'))).toBeUndefined()
  expect(events).toEqual([
    'address for 2000',
    'address for 2000',
    'application for 2000',
    'address for 5000',
    'application after 7000',
  ])
})

it('two addresses that are refused again and again neither keep others waiting nor try more than once a second', () => {
  const { admit, client, clock, refusal } = coolDowns()
  let calls = 0
  const ask = (address: string, isLimited: boolean) => {
    if (refusal(client(address)) !== undefined) return 'refused here'
    calls += 1
    admit(client(address)).answered(isLimited ? { retryAfterMs: 1_000 } : 'other')
    return 'asked'
  }
  ask('a', true)
  ask('b', true)
  expect(ask('c', false)).toBe('refused here')
  clock.advance(1_000)
  calls = 0
  for (let tenth = 0; tenth < 100; tenth += 1) {
    ask('a', true)
    ask('b', true)
    expect(refusal(client('c'))).toBeUndefined()
    clock.advance(100)
  }
  expect(calls).toBe(10)
  expect(ask('c', false)).toBe('asked')
})

it('a trial whose answer is late holds the others up for a second', () => {
  const { admit, client, clock, refusal, refuse, list } = coolDowns()
  refuse('a', 1_000)
  clock.advance(1_000)
  const late = admit(client('a'))
  clock.advance(999)
  expect(refusal(client('a'))).toBeDefined()
  clock.advance(1)
  expect(refusal(client('a'))).toBeUndefined()
  const next = admit(client('a'))
  // It is the next one's turn, so what the late one says of the cool-down comes too late to end it.
  late.answered('other')
  expect(refusal(client('a'))).toBeDefined()
  next.answered('other')
  expect(refusal(client('a'))).toBeUndefined()
  expect(list()).toEqual([])
})

it('a trial does not end a cool-down that took the place of its own, which 1,000 others pushed out', () => {
  const { admit, client, clock, refusal } = coolDowns()
  const early = admit(client('a', 'ours'))
  admit(client('a', 'ours')).answered({ retryAfterMs: 1_000 })
  clock.advance(1_000)
  const trial = admit(client('a', 'ours'))
  for (let index = 0; index < 1_000; index += 1)
    admit(client('z', `made up ${index}`)).answered({ retryAfterMs: 1_000 })
  early.answered({ retryAfterMs: 30_000 })
  trial.answered('other')
  expect(refusal(client('a', 'ours'))?.leftMs).toBe(30_000)
})

it("an earlier call's success does not end a cool-down, and an earlier call's 429 prolongs it", () => {
  const { admit, client, clock, refusal, refuse } = coolDowns()
  const [early, late] = [admit(client('a')), admit(client('a'))] as [Pass, Pass]
  refuse('a', 2_000)
  early.answered('succeeded')
  expect(refusal(client('a'))?.leftMs).toBe(2_000)
  clock.advance(1_500)
  late.answered({ retryAfterMs: 3_000 })
  expect(refusal(client('a'))?.leftMs).toBe(3_000)
})

it('a trial that is answered does not end a limit that an earlier call met meanwhile', () => {
  const { admit, client, clock, refusal, refuse } = coolDowns()
  const early = admit(client('a'))
  refuse('a', 1_000)
  clock.advance(1_000)
  const trial = admit(client('a'))
  early.answered({ retryAfterMs: 5_000 })
  trial.answered('succeeded')
  expect(refusal(client('a'))?.leftMs).toBe(5_000)
})

it('a shorter Retry-After does not cut a longer one', () => {
  const { client, refusal, admit } = coolDowns()
  const passes = [admit(client('a')), admit(client('a'))]
  passes[0]?.answered({ retryAfterMs: 20_000 })
  passes[1]?.answered({ retryAfterMs: undefined })
  expect(refusal(client('a'))?.leftMs).toBe(20_000)
})

it('one call at a time is the trial, until it is answered or given up', () => {
  const { admit, client, clock, refusal, refuse } = coolDowns()
  refuse('a', 1_000)
  clock.advance(999)
  expect(refusal(client('a'))).toBeDefined()
  clock.advance(1)
  expect(refusal(client('a'))).toBeUndefined()
  const first = admit(client('a'))
  expect(refusal(client('a'))?.leftMs).toBe(0)
  first.unanswered()
  expect(refusal(client('a'))).toBeUndefined()
  const second = admit(client('a'))
  // A call that has ended cannot end the trial of another one.
  first.unanswered()
  expect(refusal(client('a'))).toBeDefined()
  second.answered('other')
  expect(refusal(client('a'))).toBeUndefined()
  expect(refusal(client('a'))).toBeUndefined()
})

it('a cool-down that no request tried for 30 s is forgotten, so that one call does not hold back a crowd', () => {
  const { admit, client, clock, refusal, refuse, concerns } = coolDowns()
  refuse('a', 1_000)
  clock.advance(31_000)
  expect(concerns(client('a'))).toBe(false)
  admit(client('a'))
  expect(refusal(client('a'))).toBeUndefined()
})

it('a crowd of addresses is remembered up to 1,000', () => {
  const { refuse, admit, client, list } = coolDowns()
  for (let index = 0; index < 1_500; index += 1) {
    // A success between keeps it from being one of the application.
    admit(client('other')).answered('succeeded')
    refuse(`address ${index}`, 30_000)
  }
  expect(list()).toHaveLength(1_000)
})
