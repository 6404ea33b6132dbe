import { expect, onTestFinished, test } from 'vitest'
import { createMirrors, restoreMemory } from '../../src/gateway/memory-on-disk.ts'
import { Ledger } from '../../src/orders/ledger.ts'
import { createUsedQuotes } from '../../src/replicas/used-quotes.ts'
import type { MirroredMemory, State, StateRecord } from '../../src/state/state.ts'
import { quote } from '../state/support.ts'

/** The ledger and the uses over a state that keeps what it is given. */
function stage(keepsCacheKeys: boolean) {
  const noted = new Map<number, StateRecord>()
  let memory: MirroredMemory | undefined
  const state = {
    note(record: StateRecord) {
      noted.set(noted.size + 1, record)
      return noted.size
    },
    forget: (serial: number) => noted.delete(serial),
    restore(mirrored: MirroredMemory) {
      memory = mirrored
      return { records: [], lastSerial: 0, isClean: true, writtenAtMs: 0 }
    },
  } as unknown as State
  const clock = { nowMs: () => 1_763_651_841_000 }
  const { ledgerMirror, useMirror } = createMirrors(state, { keepsCacheKeys })
  const retentionMs = 60_000
  const ledger = new Ledger({ entries: 100, retentionMs, clock, mirror: ledgerMirror })
  const used = createUsedQuotes(useMirror)
  const { stop } = restoreMemory({
    ...{ state, keepsCacheKeys, ledger, used },
    trust: { isTimeDoubted: false, doubtMs: 0 },
    clock,
    retentionMs,
    fillStore() {},
  })
  onTestFinished(stop)
  return { ledger, used, noted, everything: () => new Map(memory?.everything()) }
}

test.each([false, true])(
  'a store that is written again from memory holds the same records: with cache keys, which identify clients, %s',
  (keepsCacheKeys) => {
    const { ledger, used, noted, everything } = stage(keepsCacheKeys)
    ledger.note(quote(1))
    ledger.note(quote(2))
    ledger.noteUnreadable({
      ...{ pairId: 'ETH_USDC', application: 'w', requestedAmount: '9', partition: 'p' },
      relayedAtMs: 1_763_651_841_000,
    })
    used.mark('quote-2', 1_763_651_871_000)
    expect(noted.size).toBe(4)
    expect(JSON.stringify([...noted]).includes('key-1')).toBe(keepsCacheKeys)
    expect(JSON.stringify([...everything()]).includes('key-1')).toBe(keepsCacheKeys)
    for (const [serial, record] of everything()) {
      expect(record.kind).toBe(noted.get(serial)?.kind)
      // By its serial a record is found, in the ledger too.
      expect({ ...record.value, serial }).toEqual({ ...noted.get(serial)?.value, serial })
    }
    expect(everything().size).toBe(4)
  },
)
