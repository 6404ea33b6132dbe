import type { StoreOperation } from '../events.ts'
import type { ValkeyClient } from './client.ts'
import type { StreamStore } from './stream-store.ts'

export type StoreCommands<Answer> = (client: ValkeyClient) => Promise<Answer>

/**
 * The Redis or Valkey that replicas share. It may be dead, frozen or slow at any moment, so all code that uses it also
 * works without it. What is asked in one turn of the event loop goes out in one write at its end, in order. A read of
 * the journal goes out at once.
 */
export interface SharedStore extends StreamStore {
  /** Since when it has failed, in monotonic time, and the last reason. Undefined: it is up. */
  readonly outage: { readonly sinceMs: number; readonly reason: string } | undefined
  /** The prefix of every key. Code that calls `run` adds it. */
  readonly keyPrefix: string
  /** Equal in every replica. It cannot be guessed from the store's keys. */
  readonly salt: string
  /**
   * Runs commands on one key. Resolves with `undefined` if the store failed: after VALKEY_TIMEOUT_MS at the latest, and
   * at once while it is away. Never rejects. A missing key is `null`, as in ioredis.
   */
  run<Answer>(
    operation: StoreOperation,
    commands: StoreCommands<Answer>,
  ): Promise<Answer | undefined>
  /** Like `run`, but waits for a second, and also asks a store that answers earlier commands late. */
  insist<Answer>(
    operation: StoreOperation,
    commands: StoreCommands<Answer>,
  ): Promise<Answer | undefined>
  close(): Promise<void>
}
