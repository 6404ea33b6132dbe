import { randomUUID } from 'node:crypto'
import { rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fitsASocket, makeFolders, maxFolderBytes, missingFolders } from '../process/folders.ts'

/** Says what would be right if files cannot be kept in the directory; undefined: they can. */
export type TryDirectory = (path: string) => string | undefined

/** Tries what a start does with STATE_DIRECTORY, and leaves nothing behind. A gateway may be using it meanwhile. */
export const tryDirectory: TryDirectory = (written) => {
  if (!fitsASocket(written)) return `a path of at most ${maxFolderBytes} bytes, because its lock is a socket`
  const path = resolve(written)
  const missing = missingFolders(path)
  const file = join(path, `check-config-${randomUUID()}`)
  try {
    makeFolders(path)
    // A disk that is full accepts an empty file.
    writeFileSync(file, 'quotegate --check-config', { flag: 'wx', mode: 0o600 })
    return undefined
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return `a folder that quotegate can create and write to (${code ?? message})`
  } finally {
    withoutFailing(() => rmSync(file, { force: true }))
    // One that is not empty is in use: a gateway has started meanwhile.
    for (const folder of missing) withoutFailing(() => rmdirSync(folder))
  }
}

function withoutFailing(step: () => void): void {
  try {
    step()
  } catch {
    // What could not be created cannot be removed.
  }
}
