import { type BatchMark, decodeEntry, fillBatch, markAfter } from './batch.ts'
import { createDiskWatch } from './disk-watch.ts'
import type { LevelStore } from './level-state.ts'
import type { NumberedRecord, StateRecord, StateTools } from './state.ts'
import { type Changes, createWaitingChanges } from './waiting-changes.ts'

export interface WriterOptions extends StateTools {
  /** The store, open, and what its newest batch says. */
  store: LevelStore
  mark: BatchMark
  /** Undefined: it is damaged. */
  openAgain(): Promise<LevelStore | undefined>
  /** Puts an empty store in place of one that lost what it had. */
  replaceStore(): Promise<LevelStore>
  /** All that memory holds, for an empty store. */
  everything(): Iterable<NumberedRecord>
  writeSyncMark(mark: BatchMark, isClean: boolean): Promise<void>
}

/** Keeps the store as memory is: in batches, behind everything else. */
export interface Writer {
  readonly backlog: number
  /** False while the store fails, or its disk hangs. */
  readonly isWriting: boolean
  /** All that was noted is written and synced. */
  readonly isSynced: boolean
  readonly mark: BatchMark
  note(record: StateRecord): number
  forget(serial: number): void
  close(): Promise<void>
}

/** With a batch that is written meanwhile, a record is in the store within 100 ms. */
const batchAfterMs = 25
/** So few that encoding them holds up no request. */
const maxBatch = 250
/** A sync may take as long again, and what was written is synced within a second. */
const syncAfterMs = 400
const firstRetryAfterMs = 1_000
const maxRetryAfterMs = 15_000
/** A disk that takes longer hangs: for a write, a sync, or to close the store, which is worth a line. */
const patienceMs = 5_000

export function createWriter(options: WriterOptions): Writer {
  const { observer, log, nowMs } = options
  let { store, mark } = options
  let { nextSerial } = mark
  const waiting = createWaitingChanges()
  /** The batch that is being written. One whose write failed may still be in the store. */
  let underWay: { changes: Changes; after: BatchMark } | undefined
  let batchTimer: NodeJS.Timeout | undefined
  let syncTimer: NodeJS.Timeout | undefined
  let retryTimer: NodeJS.Timeout | undefined
  let retryAfterMs = firstRetryAfterMs
  let writing: Promise<void> | undefined
  let syncing: Promise<void> | undefined
  let syncedNumber = mark.number
  let retrying: Promise<void> | undefined
  const disk = createDiskWatch(patienceMs)
  /** Nothing can be written until the store is opened again. */
  let isFailed = false
  /** The log says that nothing is written, and not yet that it is again. */
  let isDown = false
  let isClosed = false

  function scheduleBatch(): void {
    if (isFailed || isClosed || writing !== undefined) return
    batchTimer ??= setTimeout(() => void writeAll(), batchAfterMs).unref()
  }

  function writeAll(): Promise<void> {
    clearTimeout(batchTimer)
    batchTimer = undefined
    writing ??= writeBatches().finally(() => {
      writing = undefined
      if (waiting.size > 0) scheduleBatch()
    })
    return writing
  }

  async function writeBatches(): Promise<void> {
    let isBehind = waiting.size > 0
    while (isBehind && !isFailed) {
      const changes = waiting.take(maxBatch)
      const after = markAfter(mark, { changes, nextSerial, writtenAtMs: nowMs() })
      underWay = { changes, after }
      try {
        await disk.watch(store.write((batch) => fillBatch(batch, { changes, after })))
        mark = after
        underWay = undefined
      } catch (error) {
        fail('write', error)
        return
      }
      if (!isClosed) syncTimer ??= setTimeout(() => void sync(), syncAfterMs).unref()
      // A few wait for more to come, because a batch of one takes the time of many.
      isBehind = waiting.size >= (isClosed ? 1 : maxBatch)
    }
  }

  function sync(): Promise<void> {
    clearTimeout(syncTimer)
    syncTimer = undefined
    const beganMs = performance.now()
    syncing ??= disk.watch(syncOnce()).finally(() => {
      syncing = undefined
      if (mark.number === syncedNumber || isFailed || isClosed) return
      clearTimeout(syncTimer)
      const leftMs = Math.max(0, syncAfterMs - (performance.now() - beganMs))
      syncTimer = setTimeout(() => void sync(), leftMs).unref()
    })
    return syncing
  }

  async function syncOnce(): Promise<void> {
    const synced = mark
    try {
      await store.sync()
      await options.writeSyncMark(synced, false)
      syncedNumber = synced.number
    } catch (error) {
      fail('sync', error)
    }
  }

  function fail(operation: 'open' | 'write' | 'sync', error: unknown): void {
    observer.failed(operation)
    if (!isDown) {
      log.error(
        { operation, cause: error },
        'the ledger cannot be written to STATE_DIRECTORY: requests are served, but a restart now forgets the newest quotes',
      )
    }
    isFailed = true
    isDown = true
    clearTimeout(syncTimer)
    syncTimer = undefined
    if (isClosed) return
    retryTimer ??= setTimeout(() => {
      retryTimer = undefined
      retrying = retry().finally(() => {
        retrying = undefined
      })
    }, retryAfterMs).unref()
    retryAfterMs = Math.min(2 * retryAfterMs, maxRetryAfterMs)
  }

  /** A LevelDB that failed stays failed until it is opened again. */
  async function retry(): Promise<void> {
    try {
      await recover()
    } catch (error) {
      fail('open', error)
      return
    }
    await writeAll()
    // A few may be left, and the sync says that the store has all of them.
    if (!isFailed) await writeAll()
    if (!isFailed) await sync()
    if (isFailed) return
    isDown = false
    retryAfterMs = firstRetryAfterMs
    log.info({ records: mark.count }, 'the ledger is written to STATE_DIRECTORY again')
  }

  async function recover(): Promise<void> {
    await writing
    await syncing
    await store.close()
    await reopen()
    isFailed = false
  }

  /** Whether the store has what was written in that batch. */
  async function has(opened: LevelStore | undefined, { key, number }: BatchMark): Promise<boolean> {
    const value = await opened?.get(key)
    const found = value === undefined ? undefined : decodeEntry(key, value, 0)
    return opened !== undefined && (found?.mark?.number ?? 0) === number
  }

  async function reopen(): Promise<void> {
    const again = await options.openAgain()
    if (again !== undefined) store = again
    const doubted = underWay
    const isWritten = doubted !== undefined && (await has(again, doubted.after))
    // Only now, because a read that fails leaves the doubt.
    underWay = undefined
    if (isWritten) {
      mark = doubted.after
      return
    }
    if (doubted !== undefined) waiting.giveBack(doubted.changes)
    if (await has(again, mark)) return
    await store.close()
    waiting.replace(options.everything())
    // After an end in the middle the next start finds that records are missing: no batch reaches this number.
    await options.writeSyncMark(
      { ...mark, number: mark.number + waiting.size + 1, count: waiting.size },
      false,
    )
    store = await options.replaceStore()
    mark = { ...mark, count: 0, sum: 0 }
  }

  return {
    get backlog() {
      return waiting.size + (underWay?.changes.size ?? 0)
    },
    get isWriting() {
      return !isDown && !disk.isHanging
    },
    get isSynced() {
      return this.backlog === 0 && mark.number === syncedNumber && !isDown
    },
    get mark() {
      return mark
    },
    note(record) {
      const serial = nextSerial
      nextSerial += 1
      waiting.note(serial, record)
      scheduleBatch()
      return serial
    },
    forget(serial) {
      waiting.forget(serial)
      scheduleBatch()
    },
    async close() {
      for (const timer of [batchTimer, syncTimer, retryTimer]) clearTimeout(timer)
      const warning = setTimeout(
        () => log.warn({}, 'stopping: waiting for the disk of STATE_DIRECTORY'),
        patienceMs,
      )
      isClosed = true
      await retrying
      await writing
      await syncing
      // If this fails, it is said below what is lost.
      if (isFailed) await recover().catch(() => {})
      await writeAll()
      if (!isFailed) await sync()
      await store.close().catch(() => {})
      clearTimeout(warning)
      if (isFailed)
        log.error(
          { records: this.backlog },
          'stopped before these records of the ledger were written to STATE_DIRECTORY: late orders for them will be sent',
        )
      else await options.writeSyncMark(mark, true)
    },
  }
}
