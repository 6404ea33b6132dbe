import { onTestFinished } from 'vitest'
import { Events, type StoreOutcome } from '../../../src/events.ts'
import type { SharedStore } from '../../../src/memory/store.ts'
import { keptLog, levels } from '../observing/log-lines.ts'
import { type StoreLine, startStoreLine } from './store-line.ts'
import { polled } from './stream-stage.ts'
import { storeAt } from './valkey.ts'

export const get = (store: SharedStore) =>
  store.run('quote-get', (client) => client.get('quotegate:key'))
export const set = (store: SharedStore) =>
  store.run('quote-set', (client) => client.set('quotegate:key', '1'))

/** A store with what happens to it and its log, and a journal that looks at it all the time. */
export async function watched(
  url: string,
  options: { timeoutMs?: number; mayBeDown?: boolean } = {},
) {
  const log = await keptLog('info')
  const outcomes: StoreOutcome[] = []
  const events = new Events([
    {
      storeAsked(operation, outcome) {
        if (!operation.startsWith('journal-')) outcomes.push(outcome)
      },
    },
  ])
  const { timeoutMs = 500 } = options
  const store = await storeAt(url, { timeoutMs, ...options, log: log.logger, events })
  polled(store, timeoutMs)
  return {
    store,
    outcomes,
    log,
    complaints: () => log.lines(levels.warn).map(({ msg }) => msg),
  }
}

/** A line to a store that ends with the test. */
export async function lineTo(port: number): Promise<StoreLine> {
  const line = await startStoreLine(port)
  onTestFinished(() => line.end())
  return line
}
