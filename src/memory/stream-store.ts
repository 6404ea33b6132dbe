/**
 * Sends at once and in order, over one connection, without deadlines, because what was sent may still arrive. A promise
 * rejects if the store refuses, or if its connection ended.
 */
export interface StreamStore {
  /** Whether the store answers in time, and takes writes. */
  readonly up: boolean
  readonly connectionsEnded: number
  /** Within this time after the store is back, every replica has connected and been greeted. */
  readonly backWithinMs: number
  describeServer(): Promise<ServerFacts>
  /** Resolves with the entry's id. */
  appendEntry(key: string, entry: { text: string; maxEntries: number }): Promise<string>
  /** The state of the stream, and its entries from that id on. A store that takes no writes refuses this too. */
  readEntries(key: string, fromId: string): Promise<StreamPart>
}

export interface ServerFacts {
  /** The version of Redis, or of the Redis that the server is compatible with. */
  readonly version: string | undefined
  readonly maxmemoryPolicy: string | undefined
}

export const partEntries = 1_000

export const firstId = '0-0'

export interface StreamPart {
  /** By the clock that makes the ids. */
  readonly storeNowMs: number
  /** How many entries were ever added. Undefined: the server does not count them. */
  readonly added: number | undefined
  readonly length: number
  /** The id of the oldest entry. `firstId`: the stream is empty. */
  readonly oldestId: string
  readonly entries: readonly StreamEntry[]
}

export interface StreamEntry {
  readonly id: string
  readonly text: string
}

/** An id is a time of the store's wall clock, and a number. */
export function instantOf(id: string): number {
  return Number(id.slice(0, id.indexOf('-')))
}

export function isAfter(id: string, other: string): boolean {
  const [instant, otherInstant] = [instantOf(id), instantOf(other)]
  if (instant !== otherInstant) return instant > otherInstant
  return (
    Number(id.slice(id.indexOf('-') + 1)) > Number(other.slice(other.indexOf('-') + 1))
  )
}
