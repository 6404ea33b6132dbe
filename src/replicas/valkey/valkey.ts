import { hash, randomUUID } from 'node:crypto'
import type { Logger } from '../../process/logger.ts'
import type { SharedStore, StoreObserver, StoreOperation, StoreOutcome } from '../store.ts'
import { createWatch } from './availability.ts'
import { createClient, createListeningConnection, type StoreAddress, type ValkeyClient } from './client.ts'
import { withDeadline } from './deadline.ts'
import { StoreTimeout } from './failure.ts'
import { createListener } from './subscription.ts'

export interface ValkeyOptions {
  address: StoreAddress
  keyPrefix: string
  timeoutMs: number
  log: Logger
  observer: StoreObserver
}

/** A Redis or Valkey, single, with Sentinels or as a Cluster. Nothing it does can fail or hold up a request. */
export function createValkey(options: ValkeyOptions): SharedStore & { readonly firstTry: Promise<void> } {
  const { address, keyPrefix, timeoutMs, log, observer } = options
  const client = createClient(address)
  const probeKey = `${keyPrefix}alive`
  const ownWord = randomUUID()
  const upListeners: (() => void)[] = []
  const watch = createWatch({
    client,
    probeKey,
    ownWord,
    timeoutMs,
    log,
    onProbed: () => listener.probed(),
    onUp() {
      for (const listener of upListeners) listener()
    },
  })
  const listener = createListener({
    connect: () => createListeningConnection(address, client),
    timeoutMs: Math.max(timeoutMs, 500),
    ownWord: { channel: probeKey, message: ownWord },
    onHearing: watch.hearing,
    replaceClient: () => client.disconnect(true),
  })
  const underWay = new Set<Promise<unknown>>()

  async function run<Answer>(
    operation: StoreOperation,
    commands: (client: ValkeyClient) => Promise<Answer>,
  ): Promise<Answer | undefined> {
    if (!watch.up) {
      observer.operationEnded(operation, 'skipped', 0)
      return undefined
    }
    const startedAtMs = performance.now()
    const over = (outcome: StoreOutcome) =>
      observer.operationEnded(operation, outcome, performance.now() - startedAtMs)
    const answer = withDeadline(timeoutMs, () => commands(client))
    underWay.add(answer)
    try {
      const answered = await answer
      over('ok')
      watch.answered()
      return answered
    } catch (error) {
      over(error instanceof StoreTimeout ? 'timeout' : 'failed')
      watch.failed(error)
      return undefined
    } finally {
      underWay.delete(answer)
    }
  }

  return {
    get up() {
      return watch.up
    },
    keyPrefix,
    salt: hash('sha256', `${address.password ?? ''}\n${keyPrefix}`),
    firstTry: watch.firstTry,
    run,
    subscribe: (channel, listening) => listener.subscribe(channel, listening),
    onUp: (listening) => upListeners.push(listening),
    async close() {
      // What was begun for a request that is answered already: each has its deadline.
      await Promise.allSettled(underWay)
      watch.close()
      listener.close()
      client.disconnect()
    },
  }
}
