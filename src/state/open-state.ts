import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { type Clock, steadyMsOf } from '../clock.ts'
import type { Logger } from '../process/logger.ts'
import { StateError } from '../process/state-error.ts'
import { emptyMark } from './batch.ts'
import { type About, type Folder, newSalt, type SyncMark, useFolder } from './folder.ts'
import { type LevelStore, openLevel, StoreInUse } from './level-state.ts'
import { createState } from './mirrored-state.ts'
import { isOfTheSystem, openStore } from './open-store.ts'
import { layoutVersion } from './record-codec.ts'
import type { State, StateObserver } from './state.ts'

export interface StateOptions {
  /** STATE_DIRECTORY. */
  directory: string
  swapBaseUrl: string
  /** The shared store's, if there is one; else the folder has its own. */
  salt: string | undefined
  /** LEDGER_ENTRIES: of a folder with more quotes those that were noted first are left out, and removed. */
  maxQuotes: number
  clock: Clock
  log: Logger
  observer: StateObserver
}

/** Opens the folder and reads it. Throws a StateError where the start has to be refused. */
export async function openState(options: StateOptions): Promise<State> {
  try {
    return await open(options)
  } catch (cause) {
    if (cause instanceof StateError) throw cause
    const { message } = cause as Error
    throw new StateError(`STATE_DIRECTORY=${options.directory} cannot be used: ${message}`, { cause })
  }
}

async function open(options: StateOptions): Promise<State> {
  const { directory, clock, log, observer, maxQuotes } = options
  const nowMs = () => clock.nowMs()
  const wallAheadMs = () => nowMs() - steadyMsOf(clock)
  const folder = await useFolder(directory)
  const lock = await takeLock(folder, directory)
  try {
    const salt = await identify(folder, options)
    const last = await folder.readSyncMark()
    // It was there before `about` was, so that a folder without it has lost it.
    const synced = typeof last === 'object' ? last : undefined
    const onDamage = (damage: object) =>
      log.error(
        damage,
        'STATE_DIRECTORY was damaged: its intact records were read, and the damaged files were set aside',
      )
    const opened = await openStore({
      folder,
      synced,
      nowMs,
      wallAheadMs,
      maxQuotes,
      onDamage,
    })
    if (opened.leftOut > 0) {
      log.warn(
        { leftOut: opened.leftOut },
        'STATE_DIRECTORY has more quotes than LEDGER_ENTRIES: those that were noted first are removed, and late orders for them are sent',
      )
    }
    try {
      const setAside = await folder.countSetAside()
      const memory = { nowMs, observer, log }
      return await createState({
        ...memory,
        folder,
        lock,
        salt,
        synced: synced ?? unsynced,
        opened,
        setAside,
      })
    } catch (error) {
      await opened.store.close()
      throw error
    }
  } catch (error) {
    await lock.close()
    throw error
  }
}

const unsynced: SyncMark = { ...emptyMark, isClean: true }

/** The store itself cannot be the lock: before it is opened, its files are kept aside, and it may be set aside. */
async function takeLock(folder: Folder, directory: string): Promise<LevelStore> {
  const refused = (error: unknown) => {
    if (!(error instanceof StoreInUse)) throw error
    throw new StateError(
      `STATE_DIRECTORY=${directory} is in use by another process: give each process its own folder`,
      { cause: error },
    )
  }
  const take = async () => {
    await mkdir(folder.lock, { recursive: true, mode: 0o700 })
    return openLevel(folder.lock)
  }
  return take().catch(async (error) => {
    const { code } = error as NodeJS.ErrnoException
    if (error instanceof StoreInUse || error instanceof StateError) return refused(error)
    // It may be held by a process whose lock this one could not even try.
    if (isOfTheSystem(error) && code !== 'EEXIST') throw error
    // The lock is damaged and no process holds it. It has no records, so that nothing is lost with it.
    await rm(folder.lock, { recursive: true, force: true })
    return take().catch(refused)
  })
}

/** Everything that another gateway's folder may not be mixed with. */
const entries = ['about', 'synced', 'opening', 'store']

/** Makes sure that the folder is ours. Returns its salt. */
async function identify(folder: Folder, options: StateOptions): Promise<string> {
  const { directory, swapBaseUrl, log, clock } = options
  const about = await folder.readAbout()
  if (isAbout(about) && about.layout > layoutVersion) {
    throw new StateError(
      `STATE_DIRECTORY=${directory} was written by a newer version of quotegate (layout ${about.layout}, this one reads ` +
        `${layoutVersion}): start that version, or choose another folder`,
    )
  }
  const why = foreignness(about, options)
  if (isAbout(about) && why === undefined) return options.salt ?? about.salt
  if (isAbout(about) || [folder.store, folder.opening].some(existsSync)) {
    const setAsideAs = folder.nameAside(isAbout(about) ? 'set-aside' : 'damaged', clock.nowMs())
    await folder.setAside(setAsideAs, entries)
    log.warn({ setAsideAs }, `STATE_DIRECTORY ${why}: it is set aside, and the ledger starts empty`)
  }
  const salt = options.salt ?? newSalt()
  await folder.writeSyncMark(unsynced)
  await folder.writeAbout({ layout: layoutVersion, swapBaseUrl, salt: keptSalt(salt, options.salt) })
  return salt
}

function isAbout(about: About | 'none' | 'damaged'): about is About {
  return typeof about === 'object'
}

/** Why the folder cannot be used as it is; undefined: it can. */
function foreignness(
  about: About | 'none' | 'damaged',
  { swapBaseUrl, salt }: StateOptions,
): string | undefined {
  if (!isAbout(about)) return 'no longer says which gateway wrote it'
  if (about.layout < layoutVersion) return 'is of an older version that this one cannot read'
  if (about.swapBaseUrl !== swapBaseUrl) return `is of another SWAP_BASE_URL (${about.swapBaseUrl})`
  const isSalted =
    salt === undefined ? !about.salt.startsWith(sharedPrefix) : about.salt === keptSalt(salt, salt)
  return isSalted ? undefined : 'was written with another salt, which VALKEY_URL decides'
}

const sharedPrefix = 'shared:'

/** Of the shared store's salt the folder has a digest, because the salt is made of that store's password. */
function keptSalt(salt: string, shared: string | undefined): string {
  return shared === undefined ? salt : sharedPrefix + hash('sha256', salt, 'base64url')
}
