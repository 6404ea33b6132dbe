import { defineConfig } from 'vitest/config'
import { environment } from './test/support/machine/environment.ts'
import { LongestFirst } from './test/support/machine/longest-first.ts'
import { programTags } from './test/support/machine/missing-programs.ts'
import { SkippedTests } from './test/support/machine/skipped-tests.ts'

/**
 * These change their process in a way that cannot be undone (a mocked module, a flag of V8), or count all of its timers,
 * among which are those that an earlier file of the process has left.
 */
export const needOwnProcess = [
  'test/operations/console-files.test.ts',
  'test/process/logger-without-pretty.test.ts',
  'test/property/further-call.test.ts',
  'test/regression/one-shape.test.ts',
  'test/simulation/simulation.test.ts',
]

/** Each starts programs beside its own process: the built gateway, a store, a browser, a compiler. */
export const programs = 'test/**/*.program.test.ts'
/** They go by the timeouts of a store, so they have the machine for themselves. */
const fleets = 'test/faults/store-fleet*.program.test.ts'

export default defineConfig({
  test: {
    // A machine that has other things to do may be slow.
    testTimeout: 180_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
    pool: 'forks',
    // More than there are processors: most of a test's time is spent waiting for a deadline or another process.
    maxWorkers: 5,
    maxConcurrency: 32,
    sequence: { sequencer: LongestFirst },
    tags: await programTags(),
    // The second is vitest's own choice where GitHub runs it.
    reporters: [
      'default',
      ...(environment().GITHUB_ACTIONS === 'true' ? ['github-actions'] : []),
      new SkippedTests(),
    ],
    // `npm test` runs the first two, `npm run test:programs` and `npm run test:fleets` the others.
    projects: [
      {
        extends: true,
        test: {
          name: 'shared-process',
          include: ['test/**/*.test.ts'],
          exclude: ['test/fuzz/**', 'test/readme/**', programs, ...needOwnProcess],
          // A process for each file, in which all modules are loaded again, takes nearly half of the whole time.
          isolate: false,
          setupFiles: ['test/support/machine/leaves-nothing-behind.ts'],
        },
      },
      { extends: true, test: { name: 'own-process', include: needOwnProcess } },
      {
        extends: true,
        test: {
          name: 'programs',
          include: [programs],
          exclude: [fleets],
          isolate: false,
          // Each waits most of its time for what it has started.
          maxWorkers: 8,
          sequence: { groupOrder: 1 },
          setupFiles: ['test/support/machine/leaves-nothing-behind.ts'],
        },
      },
      {
        extends: true,
        test: { name: 'fleets', include: [fleets], sequence: { groupOrder: 2 } },
      },
    ],
  },
})
