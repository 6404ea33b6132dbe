import { expect, it } from 'vitest'
import { environment } from '../support/machine/environment.ts'
import { excuses, type Rules } from './stream-model.ts'
import { search } from './stream-search.ts'

// Six in `npm run check:long`. Each more takes six times as long, and no change of src makes this fail.
const steps = Number(environment().STREAM_STEPS ?? 3)
const patienceMs = 7_200_000

const rules: Rules = {
  sees: ['last-entry', 'count'],
  provesNothing: 'nothing-read',
  refills: 'all',
  secondPassMs: 1_500,
  // Replicas of this model find the store again at once; src/replicas/valkey.ts has how long real ones take.
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
    const { found, excused, states } = search(rules, steps)
    expect(found).toBeUndefined()
    const shortest = [...excused.values()].map(
      ({ problem, start, history }) => `${problem}: ${start}; ${history.join(', ')}`,
    )
    // docs/limits.md names each. To be trimmed past a reader takes four steps.
    const known = excuses.filter((excuse) => steps > 3 || excuse !== 'trimmed')
    expect([...excused.keys()].sort(), shortest.join('\n')).toEqual(known.sort())
    if (environment().STREAM_STEPS !== undefined)
      process.stdout.write(`stream: ${states} states\n${shortest.join('\n')}\n`)
  },
  patienceMs,
)

// Rules that were tried or thought of, what goes wrong with them, and after how many steps.
it.each<[string, Partial<Rules>, RegExp, number]>([
  ['loss is not seen', { sees: [] }, /^loss/, 1],
  ['loss is seen by a last id below ours', { sees: ['last-id'] }, /^loss/, 2],
  [
    'loss is seen by counting alone, and a store is promoted',
    { sees: ['count'] },
    /^safety/,
    2,
  ],
  [
    'the same by counting and by a last id below ours',
    { sees: ['count', 'last-id'] },
    /^safety/,
    2,
  ],
  ['nothing is appended after a loss', { refills: 'nothing' }, /^loss/, 1],
  ['only own notes are', { refills: 'own' }, /^loss/, 1],
  [
    'what no replica brought is appended later than a start is careful',
    { secondPassMs: 2_200 },
    /^safety/,
    2,
  ],
  ['no caution at the start', { provesNothing: 'none' }, /^safety/, 1],
  [
    'caution at the start, and none after an empty list',
    { provesNothing: 'first' },
    /^safety/,
    3,
  ],
  ['no caution after the store was away', { returnCautionMs: 0 }, /^safety/, 1],
  ['no caution after the list was trimmed', { trimCautionMs: 0 }, /^safety/, 4],
  [
    'what is acknowledged late is appended again each time',
    { lateAgain: 'ever' },
    /^appends without end/,
    1,
  ],
  ['it never is', { lateAgain: 'never' }, /^late/, 2],
  [
    'what was acknowledged and is not brought is left at that',
    { checksAcknowledged: false },
    /^loss/,
    2,
  ],
  ['what was under way is forgotten', { requeues: false }, /^loss/, 2],
])('finds what is wrong if %s', (_name, change, problem, withinSteps) => {
  const { found } = search({ ...rules, ...change }, withinSteps)
  expect(found?.problem).toMatch(problem)
  expect(found?.history).toHaveLength(withinSteps)
})
