import type { StoreOperation } from '../events.ts'
import type { ValkeyClient } from './client.ts'
import type { StreamStore } from './stream-store.ts'

export type StoreCommands<Answer> = (client: ValkeyClient) => Promise<Answer>

/**
 * The Redis or Valkey that replicas share. It may be dead, frozen or slow at any moment, so all code that uses it also
 * works without it. All commands of one turn of the event loop go out in one write, in their order.
 */
export interface SharedStore extends StreamStore {
  /** Since when it has failed, in monotonic time, and how it failed last; undefined: it is up. */
  readonly outage: { readonly sinceMs: number; readonly reason: string } | undefined
  /** Every key begins with this prefix. Callers of `run` put it there. */
  readonly keyPrefix: string
  /** Equal in every replica, and not to be guessed from the store's keys. */
  readonly salt: string
  /**
   * Runs commands on one key. Resolves with `undefined` if the store failed: after VALKEY_TIMEOUT_MS at the latest, at
   * once while it is away. Never rejects. A key that does not exist is `null`, as in ioredis.
   */
  run<Answer>(
    operation: StoreOperation,
    commands: StoreCommands<Answer>,
  ): Promise<Answer | undefined>
  /** Like `run`, but waits for a second, and also asks a store that is late with earlier commands. */
  insist<Answer>(
    operation: StoreOperation,
    commands: StoreCommands<Answer>,
  ): Promise<Answer | undefined>
  close(): Promise<void>
}
