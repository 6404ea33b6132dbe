import { defineConfig } from 'vitest/config'
import { needOwnProcess, programs } from './vitest.config.ts'

const rooms = 'client,journal,orders,property,promises,quotes,routes,upstream'
/** They wait for deadlines, and would do so again for each of thousands of changes. */
const slow = [
  'an-order-is-sent-once',
  'errors-as-documented',
  'nothing-behind-a-refusal',
  'one-further-call-for-those-who-joined',
  'short-bodies-before-connections',
  'slow-readers-hold-a-quarter',
]

/** For `npm run mutation`: tests that start no program and are quick, in one process; long properties play less. */
export default defineConfig({
  test: {
    include: [`test/{${rooms}}/**/*.test.ts`],
    exclude: [`test/promises/{${slow.join(',')}}.test.ts`, programs, ...needOwnProcess],
    // What waits for an answer that a change has taken away fails soon.
    testTimeout: 10_000,
    hookTimeout: 10_000,
    pool: 'forks',
    isolate: false,
    env: {
      GUARD_HISTORIES: '300',
      GUARD_STEPS: '2',
      ORDER_KEY_HISTORIES: '100',
      QUOTE_RACES: '500',
    },
  },
})
