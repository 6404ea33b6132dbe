import type { ValkeyClient } from './valkey/client.ts'

/** What the store is asked for. */
export type StoreOperation =
  | 'quote-get'
  | 'quote-set'
  | 'quote-forget'
  | 'unlock'
  | 'ledger-note'
  | 'ledger-recall'
  | 'rate-limit'
/** skipped: the store is down and was not asked. */
export type StoreOutcome = 'ok' | 'failed' | 'timeout' | 'skipped'

/** Receives what is to be counted of the store. */
export interface StoreObserver {
  /** `durationMs` means nothing for an operation that was skipped. */
  operationEnded(operation: StoreOperation, outcome: StoreOutcome, durationMs: number): void
}

/**
 * The Redis or Valkey that replicas share. Whoever uses it works without it too: it may be dead, frozen or slow
 * at any moment.
 */
export interface SharedStore {
  /** False from the failure that opened its breaker until it has answered again. */
  readonly up: boolean
  /** Every key and channel begins with it; whoever names one puts it there. */
  readonly keyPrefix: string
  /** The same in every replica, and not to be guessed by one who only reads the store's keys. */
  readonly salt: string
  /**
   * Runs commands on one key. `undefined` when the store failed them: after VALKEY_TIMEOUT_MS at the latest, at
   * once while its breaker is open. Never rejects. A key that does not exist is `null`, as the client has it.
   */
  run<Answer>(
    operation: StoreOperation,
    commands: (client: ValkeyClient) => Promise<Answer>,
  ): Promise<Answer | undefined>
  /**
   * Messages of all replicas on one channel, this one included. `onGap` is called each time that the subscription
   * has been made, the first time and whenever it was lost: what was sent before that may have been missed.
   */
  subscribe(channel: string, listener: { onMessage(message: string): void; onGap(): void }): void
  /** Called each time that it is up, the first time and after every outage: what it knew before may be gone. */
  onUp(listener: () => void): void
  close(): Promise<void>
}
