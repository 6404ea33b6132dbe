import { expect, it } from 'vitest'
import { environment } from '../support/machine/environment.ts'
import { excuses, type Rules } from './stream-model.ts'
import { search } from './stream-search.ts'

// Six in `npm run check:long`.
const steps = Number(environment().STREAM_STEPS ?? 4)
const patienceMs = 7_200_000

const rules: Rules = {
  sees: ['last-entry', 'count'],
  provesNothing: 'nothing-read',
  refills: 'all',
  secondPassMs: 1_500,
  returnCautionMs: 2_000,
  trimCautionMs: 60_000,
  lateCautionMs: 100,
  lateAgain: 'once',
  checksAcknowledged: true,
  requeues: true,
}

it(
  'after every short history of three replicas and a store nothing is lost, and no order is judged without what its client has',
  () => {
    const { found, excused, states, histories, ends } = search({ rules, maxSteps: steps, maxFound: 10 })
    expect({ found, states, histories, ends }).toEqual({ found: [], states, histories, ends })
    const shortest = [...excused.values()].map(
      ({ problem, start, history }) => `${problem}: ${start}; ${history.join(', ')}`,
    )
    // docs/limits.md names each.
    expect([...excused.keys()].sort(), shortest.join('\n')).toEqual([...excuses].sort())
    const counts = `stream: ${states} states, ${histories} steps, ${ends} ends\n`
    if (environment().STREAM_STEPS !== undefined) process.stdout.write(`${counts}${shortest.join('\n')}\n`)
  },
  patienceMs,
)

/** Rules that were tried or thought of, and after how many steps they fail. */
const wrong: readonly { name: string; change: Partial<Rules>; problem: RegExp; withinSteps: number }[] = [
  { name: 'loss is not seen', change: { sees: [] }, problem: /^loss/, withinSteps: 1 },
  {
    name: 'loss is seen by a last id below ours',
    change: { sees: ['last-id'] },
    problem: /^loss/,
    withinSteps: 2,
  },
  {
    name: 'loss is seen by counting alone, and a store is promoted whose clock is behind',
    change: { sees: ['count'] },
    problem: /^safety/,
    withinSteps: 2,
  },
  {
    name: 'the same by counting and by a last id below ours',
    change: { sees: ['count', 'last-id'] },
    problem: /^safety/,
    withinSteps: 2,
  },
  {
    name: 'nothing is appended after a loss',
    change: { refills: 'nothing' },
    problem: /^loss/,
    withinSteps: 1,
  },
  { name: 'only own notes are', change: { refills: 'own' }, problem: /^loss/, withinSteps: 1 },
  {
    name: 'what no replica brought is appended later than the caution of a replica that starts lasts',
    change: { secondPassMs: 2_200 },
    problem: /^safety/,
    withinSteps: 2,
  },
  { name: 'no caution at the start', change: { provesNothing: 'none' }, problem: /^safety/, withinSteps: 1 },
  {
    name: 'caution at the start, and none after an empty list',
    change: { provesNothing: 'first' },
    problem: /^safety/,
    withinSteps: 3,
  },
  {
    name: 'no caution after the store was away',
    change: { returnCautionMs: 0 },
    problem: /^safety/,
    withinSteps: 1,
  },
  {
    name: 'no caution after the list was trimmed',
    change: { trimCautionMs: 0 },
    problem: /^safety/,
    withinSteps: 4,
  },
  {
    name: 'what is acknowledged late is appended again each time',
    change: { lateAgain: 'ever' },
    problem: /^appends without end/,
    withinSteps: 1,
  },
  { name: 'it never is', change: { lateAgain: 'never' }, problem: /^late/, withinSteps: 2 },
  {
    name: 'what was acknowledged and is not brought is left at that',
    change: { checksAcknowledged: false },
    problem: /^loss/,
    withinSteps: 2,
  },
  { name: 'what was under way is forgotten', change: { requeues: false }, problem: /^loss/, withinSteps: 2 },
]

it.for(wrong)('finds what is wrong if $name', ({ change, problem, withinSteps }) => {
  const { found } = search({ rules: { ...rules, ...change }, maxSteps: withinSteps, maxFound: 1 })
  expect(found[0]?.problem).toMatch(problem)
  expect(found[0]?.history).toHaveLength(withinSteps)
})

it(
  'needs no count to see a loss: the last entry that was read is in the list, or the list was lost',
  () => {
    const { found } = search({ rules: { ...rules, sees: ['last-entry'] }, maxSteps: steps - 1, maxFound: 1 })
    expect(found).toEqual([])
  },
  patienceMs,
)
