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

it('what the trial of an application finds holds for all its addresses, whichever it came from', () => {
  const { refuse, admit, client, clock, refusal, events } = coolDowns()
  refuse('a', 2_000)
  refuse('b', 2_000)
  clock.advance(2_000)
  refuse('b', 5_000)
  expect(refusal(client('c'))).toMatchObject({ scope: 'application', leftMs: 5_000 })
  clock.advance(5_000)
  admit(client('c')).answered('succeeded')
  expect(refusal(client('d'))).toBeUndefined()
  expect(events).toEqual([
    'address for 2000',
    'address for 2000',
    'application for 2000',
    'application after 7000',
  ])
})

it('a success of before does not end a cool-down, and a 429 of before prolongs it', () => {
  const { admit, client, clock, refusal, refuse } = coolDowns()
  const [early, late] = [admit(client('a')), admit(client('a'))] as [Pass, Pass]
  refuse('a', 2_000)
  early.answered('succeeded')
  expect(refusal(client('a'))?.leftMs).toBe(2_000)
  clock.advance(1_500)
  late.answered({ retryAfterMs: 3_000 })
  expect(refusal(client('a'))?.leftMs).toBe(3_000)
})

it('a trial that is answered does not end what a call of before was told meanwhile', () => {
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

it('what nobody came to try for 30 s is forgotten, so that a crowd is not held back by one call', () => {
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
