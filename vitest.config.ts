import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { environment } from './test/support/machine/environment.ts'
import { programTags } from './test/support/machine/missing-programs.ts'
import { SkippedTests } from './test/support/machine/skipped-tests.ts'

/**
 * These change their process in a way that cannot be undone (a mocked module, a flag of V8), or count all of its timers,
 * among which are those that an earlier file of the process has left.
 */
const needOwnProcess = [
  'test/operations/console-files.test.ts',
  'test/operations/stream.test.ts',
  'test/process/logger-without-pretty.test.ts',
  'test/property/further-call.test.ts',
  'test/regression/one-shape.test.ts',
  'test/simulation/simulation.test.ts',
]

/** These take more than ten seconds each. They are started first, so that no worker is left with one at the end. */
const long = [
  'bench/memory',
  'console/',
  'deploy/image',
  'e2e/deploy-on-friday',
  'faults/breaker',
  'faults/client-memory',
  'faults/keep-alive-race',
  'faults/process-paused',
  'faults/queue',
  'faults/store-faults',
  'faults/store-fleet',
  'faults/timeouts',
  'gateway/drain',
  'grafana/alerts',
  'journal/',
  'library/',
  'logs/',
  'main',
  'operations/',
  'package/',
  'process/',
  'promises/an-order-is-sent-once',
  'promises/errors-as-documented',
  'promises/float-orders-go-first',
  'promises/held-bodies-are-bounded',
  'promises/no-quote-after-its-expiry',
  'promises/one-order-for-one-key',
  'promises/past-capacity',
  'promises/replicas-judge-alike',
  'property/guard-exhaustive',
  'property/quote-races',
  'property/stream-model',
  'property/two-edges',
  'regression/patience',
  'regression/regular-expressions',
  'replicas/',
  'scripts/',
  'simulation/',
  'upstream/',
]

class LongFilesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const isLong = ({ moduleId }: TestSpecification) =>
      long.some((name) => moduleId.includes(`/test/${name}`))
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))]
  }
}

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
    sequence: { sequencer: LongFilesFirst },
    tags: await programTags(),
    // The second is vitest's own choice where GitHub runs it.
    reporters: [
      'default',
      ...(environment().GITHUB_ACTIONS === 'true' ? ['github-actions'] : []),
      new SkippedTests(),
    ],
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
