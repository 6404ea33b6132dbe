import { defineConfig } from 'vitest/config'
import { needOwnProcess, programs } from './vitest.config.ts'

/** For `npm run mutation`: the tests that start no program, in one process, where the long properties play less. */
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/{bench,deploy,fuzz,grafana,package,readme,scripts}/**', programs, ...needOwnProcess],
    testTimeout: 60_000,
    pool: 'forks',
    isolate: false,
    env: {
      GUARD_HISTORIES: '300',
      GUARD_STEPS: '2',
      ORDER_KEY_HISTORIES: '100',
      QUOTE_RACES: '500',
      STREAM_STEPS: '3',
    },
  },
})
