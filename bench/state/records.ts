import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { steadyMsOf, systemClock } from '../../src/clock.ts'
import type { NotedQuote } from '../../src/orders/noted-quote.ts'
import { silentLogger } from '../../src/process/logger.ts'
import { openState } from '../../src/state/open-state.ts'
import type { State, StateRecord } from '../../src/state/state.ts'
import { idOf, swapUrl } from './gateway.ts'

export const entries = 200_000

export const openFolder = (directory: string) =>
  openState({
    ...{
      directory,
      swapBaseUrl: swapUrl(),
      salt: undefined,
      maxQuotes: entries,
      clock: systemClock,
      log: silentLogger(),
    },
    observer: { failed: (operation) => process.stderr.write(`a failure to ${operation}\n`) },
  })

export function restore(state: State, memory: Map<number, StateRecord>) {
  return state.restore({ everything: () => memory, isTimeDoubted: () => false })
}

export function quoteRecord(index: number, notedAtMs = Date.now()): StateRecord {
  const amount = String(index / 1_000)
  const toValue = (index * 0.289_645_123).toFixed(6)
  const terms = {
    pairId: 'ETH_USDC',
    fromValue: amount,
    requestedAmount: amount,
    toValue,
    application: 'bench',
  }
  const expiresAtMs = notedAtMs + 30_000
  const partition = `client ${index % 200}`.padEnd(22, '.')
  const value: NotedQuote = {
    id: idOf(amount),
    ...terms,
    partition,
    cacheKey: '',
    notedAtMs,
    expiresAtMs,
    refusedFromMs: expiresAtMs,
    wallAheadMs: systemClock.nowMs() - steadyMsOf(systemClock),
  }
  return { kind: 'quote', value }
}

export const sizeOf = (path: string): number =>
  readdirSync(path, { recursive: true, withFileTypes: true }).reduce((sum, file) => {
    const size = statSync(join(file.parentPath, file.name), { throwIfNoEntry: false })
    return sum + (size?.isFile() ? size.size : 0)
  }, 0)
