import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

/** The missing folders of a path, the deepest first. */
function missingFolders(path: string): string[] {
  const missing: string[] = []
  for (let folder = resolve(path); !existsSync(folder); folder = dirname(folder))
    missing.push(folder)
  return missing
}

/** Makes missing folders one by one: below /proc, `mkdir` with `recursive` never returns (Node 20). */
export function makeFolders(path: string): void {
  for (const folder of missingFolders(path).reverse()) {
    try {
      mkdirSync(folder, { mode: 0o700 })
    } catch (error) {
      // The folder was made by another process meanwhile.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}

/**
 * Max folder for the socket of `memory/folder-lock.ts`. Systems allow paths of 104 to 108 bytes, and Node silently cuts
 * longer ones.
 */
export const maxFolderBytes = 100 - '/lock-12345678'.length

export function fitsASocket(folder: string): boolean {
  return process.platform === 'win32' || Buffer.byteLength(folder) <= maxFolderBytes
}

/**
 * Tries what a startup does with STATE_DIRECTORY, and leaves nothing behind, even beside a running gateway. Returns
 * what the setting should be if it fails.
 */
export function tryFolder(written: string): string | undefined {
  if (!fitsASocket(written))
    return `a path of at most ${maxFolderBytes} bytes, because its lock is a socket`
  const path = resolve(written)
  const missing = missingFolders(path)
  const file = join(path, `check-config-${randomUUID()}`)
  try {
    makeFolders(path)
    // A full disk accepts an empty file.
    writeFileSync(file, 'quotegate --check-config', { flag: 'wx', mode: 0o600 })
    return undefined
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return `a folder that quotegate can create and write to (${code ?? message})`
  } finally {
    withoutFailing(() => rmSync(file, { force: true }))
    // A folder that is not empty is in use by now.
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
