import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { lookAt, type Now, type Timer } from '../clock.ts'
import type { DiskOperation, Events } from '../events.ts'
import { StateError } from '../process/errors.ts'
import { makeFolders } from '../process/folders.ts'
import { AppendedFile, type OpenFile } from './appended-file.ts'
import {
  type Folder,
  type FolderOptions,
  findFolder,
  journalName,
  nameAtFirst,
  nameOfCopy,
  setAside,
} from './disk-folder.ts'
import { lineOf } from './disk-queue.ts'
import { DiskSync } from './disk-sync.ts'
import { DiskTrouble } from './disk-trouble.ts'
import { DiskWriter } from './disk-writer.ts'
import { type FolderLock, fileAt, lockFolder } from './folder-lock.ts'
import type { Hold } from './holds.ts'
import type { FileReader, JournalFacts, JournalRecord } from './journal.ts'
import type { KeyKeeper } from './keys.ts'
import { areNewer, keysName, readOlderKeys, removeOlder } from './layout-before.ts'
import { type DiskRecord, readJournal } from './read-journal.ts'
import { encodeEnd, encodeHold, encodeKey, type KeyRecord } from './records.ts'
import { patienceMs } from './well.ts'

export interface DiskOptions extends FolderOptions {
  events: Events
  /** For tests of a disk that fails or hangs. */
  openFile?: OpenFile
}

/** The keys of orders in memory (`memory/keys.ts`). */
export interface KeysInMemory {
  restore(id: string, text: string, ageMs: number): void
  release(id: string): void
  live(): Iterable<{ id: string; text: string; ageMs: number }>
  /** About how many bytes of the file they take. */
  readonly bytes: number
}

/** The holds in memory (`memory/holds.ts`). */
interface HoldsInMemory {
  restore(hold: Hold): void
  live(): Iterable<Hold>
}

interface Memory {
  readonly notes: FileReader
  readonly keys: KeysInMemory
  readonly holds: HoldsInMemory
}

/** For metrics and the console. */
export interface DiskFacts extends JournalFacts {
  readonly bytes: number
  /** Records that were read at startup. */
  readonly restored: number
  readonly setAside: number
  /** When the disk had all records, by our wall clock: now, unless something waits. */
  readonly syncedAtMs: number
  readonly failures: Readonly<Record<DiskOperation, number>>
}

const unreadable = 'it could not be read to its end'
const lookEveryMs = 1_000
const copyAgainAfterMs = 2_000
/** A copy that failed is tried again after ten times its duration. */
const copyPauses = 10
/** Encoding a piece of this length does not hold up requests. */
const pieceLength = 262_144
/** The file is copied once it is 1.5 times as long as its live content, plus this. */
const spareBytes = 524_288
/** Rough lengths of the line of a head, and of a record. */
const headBytes = 100
const recordBytes = 200

/**
 * The journal in a local folder: one file, which one process appends to, and reads at startup. It is copied from memory
 * if much of it is forgotten, if the disk has failed, and at a clean shutdown.
 */
export class DiskJournal {
  readonly trouble: DiskTrouble
  readonly #options: DiskOptions
  readonly #path: string
  /** Files are written here before they are renamed. */
  readonly #pathOfCopy: string
  readonly #pathOfFirst: string
  readonly #folder: Folder
  readonly #sync: DiskSync
  readonly #writer: DiskWriter
  readonly #counts: {
    appended: number
    restored: number
    skipped: number
    setAside: number
  }
  #lock: FolderLock
  /** Files of the previous layout, removed once the one file has all their content. */
  readonly #olderNames: Set<string>
  /** Set once all is read. */
  #memory: Memory | undefined
  #lookTimer: Timer | undefined
  #looking: Promise<void> | undefined
  /** The file lacks something that is remembered, or may have lost it. */
  #mustCopy = false
  #copying: Promise<boolean> | undefined
  #copyNotBeforeMs = 0
  /** True length per estimated length of the live content, at the last reading or copy. */
  #scale = 1
  /** The file ends with the line of a clean end, or does not exist. */
  #isEndSaid = true
  #closing: Promise<void> | undefined

  private constructor(options: DiskOptions, lock: FolderLock, folder: Folder) {
    const { clock, directory, events } = options
    this.#options = options
    this.#path = join(directory, journalName)
    this.#pathOfCopy = join(directory, nameOfCopy)
    this.#pathOfFirst = join(directory, nameAtFirst)
    this.#lock = lock
    this.#folder = folder
    this.#olderNames = new Set(folder.older.names)
    this.#counts = { appended: 0, restored: 0, skipped: 0, setAside: folder.setAside }
    this.trouble = new DiskTrouble(clock, events)
    this.#sync = new DiskSync({
      clock,
      trouble: this.trouble,
      file: () => (this.#mustCopy ? undefined : this.#writer.file),
      failed: () => {
        this.#mustCopy = true
      },
    })
    this.#writer = new DiskWriter({
      clock,
      trouble: this.trouble,
      sync: this.#sync,
      makeFile: () => this.#makeFile(),
      overflowed: () => {
        this.#mustCopy = true
      },
    })
  }

  /** Throws a StateError if startup has to be refused. */
  static async open(options: DiskOptions): Promise<DiskJournal> {
    const { directory } = options
    try {
      makeFolders(directory)
      const lock = await lockFolder(directory)
      try {
        return new DiskJournal(options, lock, await findFolder(options))
      } catch (error) {
        await lock.release()
        throw error
      }
    } catch (cause) {
      if (cause instanceof StateError) throw cause
      const { message } = cause as Error
      throw new StateError(`STATE_DIRECTORY=${directory} cannot be used: ${message}`, {
        cause,
      })
    }
  }

  get salt(): string {
    return this.#folder.salt
  }

  get facts(): DiskFacts {
    const { appended, restored, skipped, setAside } = this.#counts
    return {
      appended,
      waiting: this.#writer.waiting,
      skipped: skipped + this.#writer.tooLong,
      awaySinceMs: this.trouble.sinceMs,
      bytes: this.#writer.file?.bytes ?? 0,
      restored,
      setAside,
      syncedAtMs: this.#isIdle ? this.#options.clock.nowMs() : this.#sync.upToMs,
      failures: this.trouble.failures,
    }
  }

  get #isIdle(): boolean {
    return this.#writer.waiting === 0 && this.#sync.isDone
  }

  get #isOver(): boolean {
    return this.#closing !== undefined
  }

  // Reading

  /** Reads what earlier processes wrote, before anything is appended. */
  async read(notes: FileReader, keys: KeysInMemory, holds: HoldsInMemory): Promise<void> {
    const { log } = this.#options
    const memory = { notes, keys, holds }
    const isWhole = await this.#readAll(memory)
    if (this.#isOver) return
    const { skipped, restored } = this.#counts
    if (skipped > 0) {
      log.error(
        { lines: skipped, restored },
        'STATE_DIRECTORY was damaged: these lines could not be read, all others were',
      )
    }
    this.#isEndSaid &&= isWhole
    if (!isWhole && restored > 0) notes.doubtRestored()
    this.#memory = memory
    const { timers } = this.#options.clock
    this.#lookTimer = timers.setInterval(() => this.#look(), lookEveryMs).unref()
    if (this.#mustCopy) void this.#copy()
  }

  /** Returns whether everything that was noted before seems to be there. */
  async #readAll(memory: Memory): Promise<boolean> {
    const { directory } = this.#options
    const { foreign, older } = this.#folder
    for (const part of [this.#pathOfCopy, this.#pathOfFirst])
      await rm(part, { force: true }).catch(() => {})
    if (foreign !== undefined) await this.#begin(memory, foreign)
    const hasFile = foreign === undefined && (await fileAt(this.#path)) !== undefined
    const hasOlder = older.names.length > 0
    if (!hasOlder) return !hasFile || ((await this.#readFile(memory)) && older.isWhole)
    this.#mustCopy = true
    // A file that was set aside may have had newer quotes.
    if (!hasFile) return (await this.#readOlder(memory)) && foreign === undefined
    // The newer file is read last, because later lines win.
    if (await areNewer(older, directory, this.#path)) {
      await this.#readFile(memory)
      return this.#readOlder(memory)
    }
    await this.#readOlder(memory)
    return this.#readFile(memory)
  }

  async #readFile(memory: Memory): Promise<boolean> {
    const { openFile } = this.#options
    const found = await this.#readLines(this.#path, memory)
    if (this.#isOver) return false
    if (found === undefined) {
      // An unreadable file is not overwritten.
      await this.#begin(memory, unreadable)
      this.#mustCopy = true
      return false
    }
    // Damaged lines have bytes but no record, and would spoil the scale.
    if (found.skipped === 0) this.#scale = found.bytes / estimated(found)
    try {
      this.#writer.file = await AppendedFile.open(this.#path, found, openFile)
    } catch {
      this.#mustCopy = true
    }
    return found.isWhole
  }

  /** Begins a new file, and sets the existing one aside. */
  async #begin(memory: Memory, whyNotThat: string): Promise<void> {
    try {
      this.#writer.file = await this.#makeFile(memory, whyNotThat)
    } catch {
      this.#mustCopy = true
    }
  }

  async #readOlder(memory: Memory): Promise<boolean> {
    const { clock, directory, log } = this.#options
    const { segments, hasKeys, isWhole } = this.#folder.older
    let areWhole = isWhole
    for (const name of segments) {
      const found = await this.#readLines(join(directory, name), memory)
      if (found === undefined) await this.#setAsideOlder(name)
      const isLast = name === segments.at(-1)
      // A kill leaves only the newest file torn.
      if (found?.isTorn && !isLast) this.#counts.skipped += 1
      areWhole &&=
        found !== undefined && (found.isWhole || (!isLast && found.skipped === 0))
      if (this.#isOver) return false
    }
    if (!hasKeys) return areWhole
    try {
      for await (const key of readOlderKeys(directory)) {
        if (key === undefined) this.#counts.skipped += 1
        else restoreKey(memory.keys, key, lookAt(clock))
      }
    } catch (cause) {
      log.error({ cause }, 'the keys of earlier orders could not be read')
      await this.#setAsideOlder(keysName)
    }
    return areWhole
  }

  async #setAsideOlder(name: string): Promise<void> {
    if (await setAside(this.#options, new Map([[name, unreadable]])))
      this.#counts.setAside += 1
  }

  /** Undefined: the file could not be read to its end. */
  async #readLines(path: string, { notes, keys, holds }: Memory) {
    const { clock, log } = this.#options
    const take = (record: DiskRecord, now: Now): void => {
      if (record.kind === 'key') restoreKey(keys, record, now)
      else if (record.kind === 'hold') holds.restore(record.hold)
      else if (notes.restore(record)) this.#counts.restored += 1
    }
    try {
      const found = await readJournal(path, { clock, take, isOver: () => this.#isOver })
      this.#counts.skipped += found.skipped
      return found
    } catch (cause) {
      this.#counts.skipped += 1
      log.error({ file: path, cause }, 'STATE_DIRECTORY could not be read')
      return undefined
    }
  }

  /**
   * Reads only the keys and holds. The digest of a key says whose it is, and known keys stay as they are. Holds count
   * for any provider.
   */
  async #readKeysAndHolds({ keys, holds }: Memory): Promise<void> {
    const { clock } = this.#options
    const known = new Set(Array.from(keys.live(), ({ id }) => id))
    const take = (record: DiskRecord, now: Now): void => {
      if (record.kind === 'hold') holds.restore(record.hold)
      if (record.kind === 'key' && !known.has(record.id)) restoreKey(keys, record, now)
    }
    // Read to its end even during a shutdown, because the file is set aside then.
    const isOver = () => false
    await readJournal(this.#path, { clock, take, isOver }).catch(() => {})
  }

  async #setAsideFile(why: string): Promise<void> {
    if (!(await setAside(this.#options, new Map([[journalName, why]]))))
      throw new StateError(`${this.#path} cannot be set aside`)
    this.#counts.setAside += 1
  }

  // Writing

  append(record: JournalRecord): void {
    if (this.#isIdle) this.#sync.begins()
    this.#counts.appended += 1
    // Before the first record is written, a kill leaves no trace of this process.
    this.#writer.add(record, { soon: this.#isEndSaid })
    this.#isEndSaid = false
  }

  /** A claim finds nothing here, because all keys were read at startup. */
  readonly keeper: KeyKeeper = {
    claim: async (id, text) => {
      await this.#appendKey(id, text, 0)
      return undefined
    },
    settle: (id, text, ageMs) => this.#appendKey(id, text, ageMs),
  }

  async #appendKey(id: string, text: string | undefined, ageMs: number): Promise<void> {
    this.#isEndSaid = false
    const claimedAtMs = this.#options.clock.nowMs() - ageMs
    await this.#writer.addUrgent(encodeKey({ kind: 'key', id, text, claimedAtMs }))
  }

  async appendHold(hold: Hold): Promise<void> {
    this.#isEndSaid = false
    await this.#writer.addUrgent(encodeHold(hold, lookAt(this.#options.clock)))
  }

  /** With the head, the keys and the holds. If it replaces another file, a copy with the quotes follows. */
  async #makeFile(
    memory = this.#memory,
    whyNotThat = 'of another folder',
  ): Promise<AppendedFile> {
    const { openFile } = this.#options
    await this.#lockAgain()
    const isTaken = (await fileAt(this.#path)) !== undefined
    if (isTaken && memory !== undefined) await this.#readKeysAndHolds(memory)
    const file = await AppendedFile.create(this.#pathOfFirst, openFile)
    try {
      await file.append(this.#folder.head)
      for (const piece of inPieces(this.#urgentLines(memory))) await file.append(piece)
      if (isTaken) {
        // Until this sync, the other file alone has its keys and holds.
        await file.sync()
        await this.#setAsideFile(whyNotThat)
      }
      await file.moveTo(this.#path)
      this.#isEndSaid = false
      return file
    } catch (error) {
      await file.discard()
      throw error
    }
  }

  // Copying

  /** Replaces the file by a new one with all that is remembered. Returns whether that worked. */
  #copy(): Promise<boolean> {
    this.#copying ??= this.#tryToCopy().finally(() => {
      this.#copying = undefined
    })
    return this.#copying
  }

  async #tryToCopy(): Promise<boolean> {
    const { clock } = this.#options
    const beganMs = clock.steadyMs()
    this.#mustCopy = false
    const isDone = await this.trouble.watch('copy', this.#copyAll())
    const tookMs = clock.steadyMs() - beganMs
    if (!isDone) this.#mustCopy = true
    else if (!this.#sync.isDone) void this.#sync.now()
    this.#copyNotBeforeMs = isDone
      ? 0
      : beganMs + Math.max(copyAgainAfterMs, copyPauses * tookMs)
    return isDone
  }

  async #copyAll(): Promise<void> {
    const { directory, openFile } = this.#options
    const { head } = this.#folder
    const writer = this.#writer
    await writer.inTurn(async () => {
      await this.#lockAgain()
      await this.#leaveLostFile()
      writer.file ??= await this.#makeFile()
    })
    const fresh = await AppendedFile.create(this.#pathOfCopy, openFile)
    await writer.copy(fresh, {
      lines: inPieces(this.#lines(head.toString())),
      takePlace: async () => {
        await this.#mustBeThere()
        await fresh.moveTo(this.#path)
      },
    })
    this.#isEndSaid = false
    this.#scale = fresh.bytes / this.#estimate()
    await fresh.sync()
    await removeOlder(directory, this.#olderNames).catch(() => {})
  }

  *#lines(head: string): Iterable<string> {
    yield head
    for (const record of this.#memory?.notes.live() ?? [])
      yield lineOf(record, lookAt(this.#options.clock))
    yield* this.#urgentLines()
  }

  *#urgentLines(memory = this.#memory): Iterable<string> {
    const now = lookAt(this.#options.clock)
    for (const { id, text, ageMs } of memory?.keys.live() ?? [])
      yield `${encodeKey({ kind: 'key', id, text, claimedAtMs: now.nowMs - ageMs })}\n`
    for (const hold of memory?.holds.live() ?? []) yield `${encodeHold(hold, now)}\n`
  }

  #estimate(): number {
    if (this.#memory === undefined) return estimated({ records: 0, keyBytes: 0 })
    const { notes, keys } = this.#memory
    return estimated({ records: notes.tidy(), keyBytes: keys.bytes })
  }

  /** Takes the lock again if the folder was removed or replaced. */
  async #lockAgain(): Promise<void> {
    if ((await this.#lock.whyLost()) === undefined) return
    const { directory } = this.#options
    makeFolders(directory)
    const lock = await lockFolder(directory)
    await this.#lock.release()
    this.#lock = lock
    // The older files of another folder have not been read.
    this.#olderNames.clear()
  }

  #look(): void {
    this.#looking ??= this.#lookOnce().finally(() => {
      this.#looking = undefined
    })
  }

  async #lookOnce(): Promise<void> {
    const isThere = await this.trouble.watch('folder', this.#mustBeThere())
    if (!isThere) {
      await this.#leaveLostFile()
      this.#mustCopy = true
    }
    const bytes = this.#writer.file?.bytes ?? 0
    const isLong = bytes > 1.5 * this.#scale * this.#estimate() + spareBytes
    if (!this.#mustCopy && !isLong) return
    if (this.#options.clock.steadyMs() >= this.#copyNotBeforeMs) await this.#copy()
  }

  /** If its path leads to another file now, that file must not be overwritten. */
  async #leaveLostFile(): Promise<void> {
    if ((await this.#writer.file?.isThere()) === false) await this.#writer.lose()
  }

  /** Throws if the next process would not find what is written. */
  async #mustBeThere(): Promise<void> {
    await this.#mustBeOurs()
    if ((await this.#writer.file?.isThere()) !== false) return
    throw new StateError(`${this.#path} was removed or replaced`)
  }

  /** Throws if another process has the folder, or the path leads to another one. */
  async #mustBeOurs(): Promise<void> {
    const why = await this.#lock.whyLost()
    if (why !== undefined) throw new StateError(why)
  }

  // The end

  close(): Promise<void> {
    this.#closing ??= this.#end()
    return this.#closing
  }

  async #end(): Promise<void> {
    const { clock, log } = this.#options
    clock.timers.clear(this.#lookTimer)
    const warning = clock.timers.setTimeout(
      () => log.warn({}, 'stopping: waiting for the disk of STATE_DIRECTORY'),
      patienceMs,
    )
    await this.#looking
    await this.#copying
    const lost = await this.#writeLast()
    if (lost > 0) {
      log.error(
        { records: lost },
        'stopped before these records of the ledger were written to STATE_DIRECTORY: late orders for them will be sent',
      )
    }
    await this.#sync.close()
    await this.#writer.file?.close()
    await this.#lock.release()
    clock.timers.clear(warning)
  }

  /** Returns how many records are lost. */
  async #writeLast(): Promise<number> {
    const writer = this.#writer
    const waiting = await writer.close()
    // After a partial reading, a copy would replace what was not read.
    if (this.#memory === undefined) return 0
    const mustCopy = this.#mustCopy
    // After any other end, the next startup has to doubt what it reads.
    const isClean = waiting === 0 && !this.#memory.notes.doubtsRestored
    const isNews = !this.#isEndSaid && isClean
    const isCopied = (mustCopy || isNews) && (await this.#copy())
    if (mustCopy && !isCopied) return this.#counts.appended + this.#counts.restored
    if (isNews) {
      const end = Buffer.from(`${encodeEnd(this.#options.clock.nowMs())}\n`)
      const said = writer.inTurn(async () => writer.file?.append(end))
      if (await this.trouble.watch('write', said)) this.#sync.written(undefined)
    }
    return waiting
  }
}

function restoreKey(
  keys: KeysInMemory,
  { id, text, claimedAtMs }: KeyRecord,
  now: Now,
): void {
  if (text === undefined) keys.release(id)
  else keys.restore(id, text, Math.max(0, now.nowMs - claimedAtMs))
}

function estimated({ records, keyBytes }: { records: number; keyBytes: number }): number {
  return headBytes + records * recordBytes + keyBytes
}

function* inPieces(lines: Iterable<string>): Iterable<Buffer> {
  let piece = ''
  for (const line of lines) {
    piece += line
    if (piece.length < pieceLength) continue
    yield Buffer.from(piece)
    piece = ''
  }
  yield Buffer.from(piece)
}
