import type { Clock } from '../clock.ts'
import { type DiskOperation, diskOperations, type Events } from '../events.ts'
import { patienceMs, Well } from './well.ts'

export { patienceMs }

/** Whether the disk of STATE_DIRECTORY is well. */
export class DiskTrouble extends Well<DiskOperation> {
  constructor(clock: Clock, events: Events) {
    super({
      clock,
      operations: diskOperations,
      reasonOf: (cause, operation) => `${operation}: ${textOf(cause)}`,
      began: (_reason, operation, cause) => events.journalAway('disk', operation, cause),
      ended: (forMs) => events.journalBack('disk', forMs),
    })
  }
}

/** A number is how long a step has taken. Of an error of the system, all but the call and the path. */
function textOf(cause: unknown): string {
  if (typeof cause === 'number') return `takes longer than ${cause / 1_000} s`
  const text = cause instanceof Error ? cause.message : String(cause)
  return /^[A-Z]+: [^,]+/.exec(text)?.[0] ?? text
}
