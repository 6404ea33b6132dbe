import { hash, randomBytes } from 'node:crypto'
import { chmod, readdir, rename, rm, stat } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { StateError } from '../process/errors.ts'
import { fitsASocket, maxFolderBytes } from '../process/folders.ts'

/** A folder called `lock`, as 1.1.0 had it, gets this name. */
export const oldLock = 'lock.old'

const guardTries = 100
const guardPauseMs = 50
const answerWithinMs = 2_000

export interface FolderLock {
  /** Why the lock was lost. Undefined: its path still leads to it. */
  whyLost(): Promise<string | undefined>
  release(): Promise<void>
}

/** Identifies the file that a path leads to, whatever its name. An open file keeps its identity. Undefined: no file. */
export function fileAt(path: string): Promise<string | undefined> {
  return stat(path, { bigint: true }).then(
    ({ dev, ino }) => `${dev}-${ino}`,
    () => undefined,
  )
}

/**
 * Lets one process use a folder. The lock is a socket in it, because the system closes a socket however its process
 * ends. The next process replaces the file that is left, which refuses connections.
 */
export async function lockFolder(directory: string): Promise<FolderLock> {
  if (process.platform === 'win32') return lockByPipe(directory)
  if (!fitsASocket(directory)) {
    throw new StateError(
      `STATE_DIRECTORY=${directory} is too long: at most ${maxFolderBytes} bytes, because its lock is a socket`,
    )
  }
  const guard = process.platform === 'linux' ? await guardOf(directory) : undefined
  try {
    return await lockBySocket(directory, guard !== undefined)
  } finally {
    guard?.close()
  }
}

async function lockBySocket(directory: string, isGuarded: boolean): Promise<FolderLock> {
  const path = join(directory, 'lock')
  const isFolder = await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
  if (isFolder) await rename(path, join(directory, oldLock))
  if ((await ask(path)) !== undefined) throw inUse(directory)
  // Without the guard, another process may be about to rename its own socket.
  const left = isGuarded
    ? (await readdir(directory)).filter((name) => name.startsWith('lock-'))
    : []
  for (const name of left) await rm(join(directory, name), { force: true })

  const number = randomBytes(16).toString('hex')
  const fresh = join(directory, `lock-${number.slice(0, 8)}`)
  const server = await listen(fresh, number)
  try {
    await chmod(fresh, 0o600)
    await rename(fresh, path)
    // Without the guard, or in another network namespace, another process may have renamed its own to it since.
    await pause(guardPauseMs)
    if ((await ask(path)) !== number) throw inUse(directory)
  } catch (error) {
    server.close()
    throw error
  }
  const file = await fileAt(path)
  const whyLost = async () => {
    if (file !== undefined && (await fileAt(path)) === file) return undefined
    const holder = await ask(path)
    // Some file systems change a file's inode between two looks.
    if (holder === number) return undefined
    return holder === undefined
      ? `STATE_DIRECTORY=${directory} was emptied or removed, or another folder is in its place`
      : inUse(directory).message
  }
  return {
    whyLost,
    async release() {
      // Before the socket closes: after that the file may be the next process's.
      if ((await whyLost().catch(String)) === undefined)
        await rm(path, { force: true }).catch(() => {})
      server.close()
    },
  }
}

async function lockByPipe(directory: string): Promise<FolderLock> {
  const pipe = `\\\\.\\pipe\\quotegate-${hash('sha256', resolve(directory))}`
  const server = await listen(pipe, '').catch((error) => {
    throw isTaken(error) ? inUse(directory) : error
  })
  return { whyLost: async () => undefined, release: async () => void server.close() }
}

function inUse(directory: string): StateError {
  return new StateError(
    `STATE_DIRECTORY=${directory} is in use by another process or gateway: give each its own folder`,
  )
}

function isTaken(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
}

/**
 * Two processes can find the same file of an ended process, and replace it one after the other. This socket has a name
 * without a file: only one process can have it, and it ends with the process.
 */
async function guardOf(directory: string): Promise<Server> {
  const { dev, ino } = await stat(directory, { bigint: true })
  for (let left = guardTries; ; left -= 1) {
    try {
      return await listen(`\0quotegate-${dev}-${ino}`, '')
    } catch (error) {
      if (!isTaken(error)) throw error
      if (left === 0) throw inUse(directory)
      await pause(guardPauseMs)
    }
  }
}

/** A socket that answers with its number. */
function listen(path: string, number: string): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => {}).end(number)
  })
  return new Promise((done, failed) => {
    server.once('error', failed).listen(path, () => done(server.unref()))
  })
}

/** Asks the socket's process for its number: '' if it has no time to answer, undefined if it has ended. */
function ask(path: string): Promise<string | undefined> {
  return new Promise((done, failed) => {
    const socket = connect(path).setEncoding('latin1')
    let number = ''
    socket.on('data', (text: string) => {
      number += text
    })
    socket.setTimeout(answerWithinMs, () => socket.destroy())
    socket.once('close', () => done(number))
    socket.once('error', (error: NodeJS.ErrnoException) => {
      const { code } = error
      if (code === 'ENOENT' || code === 'ECONNREFUSED') done(undefined)
      // The socket's queue is full, or its process is ending.
      else if (code === 'EAGAIN' || code === 'ECONNRESET') done('')
      else failed(error)
    })
  })
}
