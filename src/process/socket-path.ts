/** Systems allow 104 to 108, and of a longer path Node takes the beginning without a word. */
const maxSocketPathBytes = 100

/** The longest folder for a socket that has one of the names in `journal/folder-lock.ts`. */
export const maxFolderBytes = maxSocketPathBytes - '/lock-12345678'.length

export function fitsASocket(folder: string): boolean {
  return process.platform === 'win32' || Buffer.byteLength(folder) <= maxFolderBytes
}
