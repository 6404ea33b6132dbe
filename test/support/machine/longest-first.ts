import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** What takes longest, by its waits or its work. Begun last, each of them alone would keep a run from its end. */
const longest = [
  'property/quote-races.test.ts',
  'promises/slow-readers-hold-a-quarter.test.ts',
  'regression/patience.test.ts',
  'faults/keep-alive-race.test.ts',
  'faults/slow-clients.test.ts',
  'faults/early-answers.test.ts',
  'faults/breaker.test.ts',
  'faults/timeouts.test.ts',
  'faults/late-events.test.ts',
  'promises/one-further-call-for-those-who-joined.test.ts',
  'promises/short-bodies-before-connections.test.ts',
  'property/two-edges.test.ts',
  'property/guard-exhaustive.test.ts',
  'regression/regular-expressions.test.ts',
  'sandbox/payments.test.ts',
  // Of those that start programs, in turns: one that works, one that waits.
  'grafana/alerts.program.test.ts',
  'replicas/store.program.test.ts',
  'library/memory.program.test.ts',
  'faults/store-faults.program.test.ts',
  'package/examples.program.test.ts',
  'faults/store-faults-at-the-start.program.test.ts',
  'scripts/build.program.test.ts',
  'gateway/drain-rolling.program.test.ts',
  'package/declarations.program.test.ts',
  'promises/held-bodies-are-bounded.program.test.ts',
  'package/tarball.program.test.ts',
  'faults/client-memory.program.test.ts',
  'bench/memory.program.test.ts',
]

/**
 * A new clone knows no times, and vitest would begin with the longest texts. Those that need a process of their own come
 * first: a process that several files share ends when the next is not for it.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId, project }: TestSpecification) => {
      const at = longest.findIndex((name) => moduleId.endsWith(`/test/${name}`))
      return project.config.isolate ? -1 : at === -1 ? longest.length : at
    }
    return (await super.sort(files)).sort((one, other) => place(one) - place(other))
  }
}
