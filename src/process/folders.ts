import { existsSync, mkdirSync } from 'node:fs'
import { dirname, resolve } from 'node:path'

/** The folder and those above it that do not exist, the deepest first. */
export function missingFolders(path: string): string[] {
  const missing: string[] = []
  for (let folder = resolve(path); !existsSync(folder); folder = dirname(folder)) missing.push(folder)
  return missing
}

/** One after the other: below /proc, where no folder can be made, `mkdir` with `recursive` never returns (Node 20). */
export function makeFolders(path: string): void {
  for (const folder of missingFolders(path).reverse()) {
    try {
      mkdirSync(folder, { mode: 0o700 })
    } catch (error) {
      // Another process made it meanwhile.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}

/** Systems allow 104 to 108, and of a longer path Node takes the beginning without a word. */
const maxSocketPathBytes = 100

/** The longest folder for a socket that has one of the names in `journal/folder-lock.ts`. */
export const maxFolderBytes = maxSocketPathBytes - '/lock-12345678'.length

export function fitsASocket(folder: string): boolean {
  return process.platform === 'win32' || Buffer.byteLength(folder) <= maxFolderBytes
}
