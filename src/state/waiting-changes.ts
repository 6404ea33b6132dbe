import type { StateRecord } from './state.ts'

/** By serial what is to be written; undefined: the record is to be removed. */
export type Changes = ReadonlyMap<number, StateRecord | undefined>

/** What memory has changed and the store has not. */
export interface WaitingChanges {
  readonly size: number
  note(serial: number, record: StateRecord): void
  forget(serial: number): void
  take(max: number): Changes
  /** What was taken was not written. */
  giveBack(taken: Changes): void
  replace(records: Iterable<readonly [serial: number, record: StateRecord]>): void
}

export function createWaitingChanges(): WaitingChanges {
  let waiting = new Map<number, StateRecord | undefined>()

  function forget(serial: number): void {
    // What was never written has nothing to remove.
    if (waiting.get(serial) !== undefined) waiting.delete(serial)
    else waiting.set(serial, undefined)
  }

  return {
    get size() {
      return waiting.size
    },
    note: (serial, record) => waiting.set(serial, record),
    forget,
    take(max) {
      const taken = new Map<number, StateRecord | undefined>()
      for (const [serial, to] of waiting) {
        if (taken.size === max) break
        taken.set(serial, to)
        waiting.delete(serial)
      }
      return taken
    },
    giveBack(taken) {
      const since = waiting
      waiting = new Map(taken)
      for (const [serial, to] of since) {
        if (to === undefined) forget(serial)
        else waiting.set(serial, to)
      }
    },
    replace(records) {
      waiting = new Map(records)
    },
  }
}
