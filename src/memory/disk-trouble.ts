import type { Clock } from '../clock.ts'
import { type DiskOperation, diskOperations, type Events } from '../events.ts'
import { Well } from './well.ts'

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

/** A number is how long a step has taken. Call and path of a system error are left out. */
function textOf(cause: unknown): string {
  if (typeof cause === 'number') return `takes longer than ${cause / 1_000} s`
  const text = cause instanceof Error ? cause.message : String(cause)
  return /^[A-Z]+: [^,]+/.exec(text)?.[0] ?? text
}
