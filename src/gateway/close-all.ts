import type { OperationsApp } from '../operations/operations-app.ts'
import type { Tracing } from '../process/span.ts'
import type { SharedStore } from '../replicas/store.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { Journals } from './journals.ts'
import type { Upstreams } from './upstreams.ts'

/** Calls each after the one before has settled, also if that failed: a journal that is not closed counts as a crash. */
export async function closeAll(closes: readonly (() => unknown)[]): Promise<void> {
  const errors: Error[] = []
  for (const close of closes) {
    try {
      await close()
    } catch (error) {
      errors.push(error as Error)
    }
  }
  if (errors.length === 1) throw errors[0]
  if (errors.length > 1) throw new AggregateError(errors, errors.map(({ message }) => message).join('; '))
}

/** What has to be closed, as far as it was opened. */
export interface OpenedParts {
  upstreams?: Upstreams
  sharedStore?: SharedStore | undefined
  sandbox?: Sandbox | undefined
  journals?: Journals
  tracing?: Tracing | undefined
  operations?: Pick<OperationsApp, 'close'>
}

/** `leftMs`: what the last spans may take. */
export async function closeParts(opened: OpenedParts, leftMs: number): Promise<void> {
  const endsAtMs = performance.now() + leftMs
  await closeAll([
    ...Object.values(opened.upstreams ?? {}).map((upstream) => () => upstream?.close()),
    () => opened.sandbox?.close(),
    () => opened.journals?.close(),
    () => opened.sharedStore?.close(),
    () => opened.tracing?.close(Math.max(0, endsAtMs - performance.now())),
    // Its live streams would hold up the operations listener, which goes last, so that the end can be watched.
    () => opened.operations?.close(),
  ])
}
