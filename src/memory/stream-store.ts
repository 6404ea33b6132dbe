/**
 * The store's client, as the stream needs it. It sends at once and in order, over one connection, and ends nothing by a
 * deadline: what was sent may still arrive. A promise rejects where the store refuses or its connection ended.
 */
export interface StreamStore {
  /** Whether the store answers in time, and takes writes. */
  readonly up: boolean
  /** How many connections have ended. */
  readonly connectionsEnded: number
  /** Once the store is back, every replica has connected and been greeted within this time. */
  readonly backWithinMs: number
  describeServer(): Promise<ServerFacts>
  /** Resolves with the entry's id. */
  appendEntry(key: string, entry: { text: string; maxEntries: number }): Promise<string>
  /** What the stream is, and its entries from that id on. A store that takes no writes refuses it too. */
  readEntries(key: string, fromId: string): Promise<StreamPart>
}

export interface ServerFacts {
  /** The version of Redis, or of the Redis that the server is compatible with. */
  readonly version: string | undefined
  readonly maxmemoryPolicy: string | undefined
}

/** How many entries are read at once. */
export const partEntries = 1_000

export const firstId = '0-0'

export interface StreamPart {
  /** By the clock that ids are made of. */
  readonly storeNowMs: number
  /** How many entries there were ever; undefined: the server does not count them. */
  readonly added: number | undefined
  readonly length: number
  /** The id of the oldest entry that is there. `firstId`: there is none. */
  readonly oldestId: string
  readonly entries: readonly StreamEntry[]
}

export interface StreamEntry {
  readonly id: string
  readonly text: string
}

/** An id is the store's wall clock and a number. */
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
