import { hash, randomUUID } from 'node:crypto'
import type { Logger } from '../../process/logger.ts'
import type { Span } from '../../tracing/observer.ts'
import type { SharedStore, StoreObserver, StoreOperation, StoreOutcome } from '../store.ts'
import { createAvailability } from './availability.ts'
import { createClient, createSubscriberConnection, type StoreAddress, type ValkeyClient } from './client.ts'
import { withDeadline } from './deadline.ts'
import { StoreTimeout } from './failure.ts'
import { createSubscription } from './subscription.ts'

export interface ValkeyOptions {
  address: StoreAddress
  keyPrefix: string
  timeoutMs: number
  log: Logger
  observer: StoreObserver
}

/** A Redis or Valkey: single, with Sentinels, or a Cluster. `run` takes `timeoutMs` at most and never rejects. */
export function createValkey(options: ValkeyOptions): SharedStore & { readonly firstProbe: Promise<void> } {
  const { address, keyPrefix, timeoutMs, log, observer } = options
  const client = createClient(address)
  const probeKey = `${keyPrefix}alive`
  const marker = randomUUID()
  const upListeners: (() => void)[] = []
  const availability = createAvailability({
    client,
    probeKey,
    marker,
    timeoutMs,
    log,
    onProbed: () => subscription.markerPublished(),
    onUp() {
      for (const listener of upListeners) listener()
    },
  })
  const subscription = createSubscription({
    connect: () => createSubscriberConnection(address, client),
    timeoutMs: Math.max(timeoutMs, 500),
    marker: { channel: probeKey, message: marker },
    onSubscribed: availability.subscribed,
    onFailed: availability.subscriptionFailed,
    replaceClient: () => client.disconnect(true),
  })
  const inFlight = new Set<Promise<unknown>>()

  async function run<Answer>(
    operation: StoreOperation,
    commands: (client: ValkeyClient) => Promise<Answer>,
    span?: Span,
  ): Promise<Answer | undefined> {
    if (!availability.up) {
      observer.operationEnded(operation, 'skipped', 0)
      return undefined
    }
    const startedAtMs = performance.now()
    const traced = span?.child(operation, 'client')
    traced?.set('db.system.name', 'redis')
    const report = (outcome: StoreOutcome) => {
      observer.operationEnded(operation, outcome, performance.now() - startedAtMs)
      traced?.end(outcome === 'ok' ? undefined : outcome)
    }
    const answer = withDeadline(timeoutMs, () => commands(client))
    inFlight.add(answer)
    try {
      const answered = await answer
      report('ok')
      availability.answered()
      return answered
    } catch (error) {
      report(error instanceof StoreTimeout ? 'timeout' : 'failed')
      availability.failed(error)
      return undefined
    } finally {
      inFlight.delete(answer)
    }
  }

  return {
    get up() {
      return availability.up
    },
    get outage() {
      return availability.outage
    },
    keyPrefix,
    salt: hash('sha256', `${address.password ?? ''}\n${keyPrefix}`),
    firstProbe: availability.firstProbe,
    run,
    subscribe: subscription.subscribe,
    onUp: (listener) => upListeners.push(listener),
    async close() {
      // Commands that still run for requests already answered. Each has its deadline.
      await Promise.allSettled(inFlight)
      availability.close()
      subscription.close()
      client.disconnect()
    },
  }
}
