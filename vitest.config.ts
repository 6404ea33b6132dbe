import { defineConfig } from 'vitest/config'

/** These change their process in a way that cannot be undone: a mocked module, a flag of V8. */
const needOwnProcess = ['test/operations/console-files.test.ts', 'test/regression/one-shape.test.ts']

export default defineConfig({
  test: {
    testTimeout: 30_000,
    hookTimeout: 30_000,
    pool: 'forks',
    // More than there are processors: most of a test's time is spent waiting for a deadline or another process.
    maxWorkers: 4,
    maxConcurrency: 32,
    projects: [
      {
        extends: true,
        test: {
          name: 'shared process',
          include: ['test/**/*.test.ts'],
          exclude: ['test/fuzz/**', 'test/readme/**', ...needOwnProcess],
          // A process for each file, in which all modules are loaded again, takes nearly half of the whole time.
          isolate: false,
          setupFiles: ['test/support/machine/leaves-nothing-behind.ts'],
        },
      },
      { extends: true, test: { name: 'own process', include: needOwnProcess } },
    ],
  },
})
