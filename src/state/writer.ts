import type { Logger } from '../process/logger.ts'
import type { LevelStore, Operation } from './level-state.ts'
import { type BatchMark, decodeMark, encodeMark, encodeRecord, keyOf, markKey } from './record-codec.ts'
import type { NumberedRecord, StateObserver, StateRecord } from './state.ts'
import { type Changes, createWaitingChanges } from './waiting-changes.ts'

export interface WriterOptions {
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
  nowMs(): number
  /** Our wall clock less our steady clock. */
  wallAheadMs(): number
  observer: StateObserver
  log: Logger
}

/** Keeps the store as memory is: in batches, behind everything else. */
export interface Writer {
  readonly backlog: number
  readonly isWriting: boolean
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

export function createWriter(options: WriterOptions): Writer {
  const { observer, log, nowMs } = options
  let { store, mark } = options
  let { nextSerial } = mark
  const waiting = createWaitingChanges()
  /** The batch that is being written. One whose write failed may be in the store all the same. */
  let underWay: { batch: Changes; after: BatchMark } | undefined
  let batchTimer: NodeJS.Timeout | undefined
  let syncTimer: NodeJS.Timeout | undefined
  let retryTimer: NodeJS.Timeout | undefined
  let retryAfterMs = firstRetryAfterMs
  let writing: Promise<void> | undefined
  let syncing: Promise<void> | undefined
  let syncedNumber = mark.number
  let isFailed = false
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
      const batch = waiting.take(maxBatch)
      const after = markAfter(batch)
      underWay = { batch, after }
      try {
        await store.write(operationsOf(batch, after))
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

  function markAfter(batch: Changes): BatchMark {
    let { count } = mark
    for (const to of batch.values()) count += to === undefined ? -1 : 1
    return { number: mark.number + 1, count, nextSerial, writtenAtMs: nowMs() }
  }

  function operationsOf(batch: Changes, after: BatchMark): Operation[] {
    const wallAheadMs = options.wallAheadMs()
    const operations: Operation[] = []
    for (const [serial, to] of batch) {
      const key = keyOf(serial)
      if (to === undefined) operations.push({ type: 'del', key })
      else operations.push({ type: 'put', key, value: encodeRecord(key, to, wallAheadMs) })
    }
    operations.push({ type: 'put', key: markKey, value: encodeMark(after) })
    return operations
  }

  function sync(): Promise<void> {
    clearTimeout(syncTimer)
    syncTimer = undefined
    const beganMs = performance.now()
    syncing ??= syncOnce().finally(() => {
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
    if (!isFailed) {
      log.error(
        { operation, cause: error },
        'the ledger cannot be written to STATE_DIRECTORY: requests are served, but a restart now forgets the newest quotes',
      )
    }
    isFailed = true
    if (isClosed) return
    retryTimer ??= setTimeout(() => void retry(), retryAfterMs).unref()
    retryAfterMs = Math.min(2 * retryAfterMs, maxRetryAfterMs)
  }

  /** A LevelDB that failed stays failed until it is opened again. */
  async function retry(): Promise<void> {
    retryTimer = undefined
    try {
      await settle()
      await reopen()
    } catch (error) {
      fail('open', error)
      return
    }
    isFailed = false
    await writeAll()
    if (isFailed) return
    await sync()
    if (isFailed) return
    retryAfterMs = firstRetryAfterMs
    log.info({ records: mark.count }, 'the ledger is written to STATE_DIRECTORY again')
  }

  async function tryOnceMore(): Promise<void> {
    try {
      await settle()
      await reopen()
      isFailed = false
    } catch {
      // It is said below what is lost.
    }
  }

  async function settle(): Promise<void> {
    await writing
    await syncing
    await store.close()
  }

  async function reopen(): Promise<void> {
    const again = await options.openAgain()
    const found = again && (decodeMark((await again.get(markKey)) ?? '')?.number ?? 0)
    if (again !== undefined) store = again
    const doubted = underWay
    underWay = undefined
    if (doubted !== undefined && found === doubted.after.number) {
      mark = doubted.after
      return
    }
    if (doubted !== undefined) waiting.giveBack(doubted.batch)
    if (found === mark.number) return
    await store.close()
    store = await options.replaceStore()
    mark = { ...mark, count: 0 }
    waiting.replace(options.everything())
  }

  return {
    get backlog() {
      return waiting.size + (underWay?.batch.size ?? 0)
    },
    get isWriting() {
      return !isFailed
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
      isClosed = true
      await writing
      await syncing
      if (isFailed) await tryOnceMore()
      await writeAll()
      if (!isFailed) await sync()
      await store.close().catch(() => {})
      if (isFailed)
        log.error({ records: this.backlog }, 'these records of the ledger are not in STATE_DIRECTORY')
      else await options.writeSyncMark(mark, true)
    },
  }
}
