import type { Span } from '../tracing/observer.ts'
import type { ValkeyClient } from './valkey/client.ts'

/** The kinds of calls to the store, as metrics name them. */
export type StoreOperation =
  | 'quote-get'
  | 'quote-set'
  | 'quote-forget'
  | 'unlock'
  | 'ledger-note'
  | 'ledger-recall'
  | 'ledger-refill'
  | 'rate-limit'
/** skipped: the store was down, so nothing was sent. */
export type StoreOutcome = 'ok' | 'failed' | 'timeout' | 'skipped'

/** Counts the calls to the store. */
export interface StoreObserver {
  /** `durationMs` has no meaning for a skipped operation. */
  operationEnded(operation: StoreOperation, outcome: StoreOutcome, durationMs: number): void
}

/**
 * The Redis or Valkey that replicas share. It may be dead, frozen or slow at any moment, so all code that uses it also
 * works without it.
 */
export interface SharedStore {
  /** False from the failure that opened the store's breaker until a probe was answered. */
  readonly up: boolean
  /** Since when it has failed, in monotonic time, and how it failed last; undefined: it is up. */
  readonly outage: { readonly sinceMs: number; readonly reason: string } | undefined
  /** Every key and channel begins with this prefix. Callers of `run` and `subscribe` put it there. */
  readonly keyPrefix: string
  /** The same in every replica. It cannot be guessed by someone who only reads the store's keys. */
  readonly salt: string
  /**
   * Runs commands on one key. Resolves with `undefined` if the store failed: after VALKEY_TIMEOUT_MS at the latest, at
   * once while the breaker is open. Never rejects. A key that does not exist is `null`, as in ioredis. `span`: of the
   * request for which it is done, if that is sampled.
   */
  run<Answer>(
    operation: StoreOperation,
    commands: (client: ValkeyClient) => Promise<Answer>,
    span?: Span,
  ): Promise<Answer | undefined>
  /**
   * Receives the messages of all replicas on one channel, including this replica's own. `onGap` is called when the
   * subscription is first made and each time it is restored: messages sent before may have been missed.
   */
  subscribe(channel: string, subscriber: { onMessage(message: string): void; onGap(): void }): void
  /** Called when the store is first up and after every outage. It may have lost its data. */
  onUp(listener: () => void): void
  close(): Promise<void>
}
