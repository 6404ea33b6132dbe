import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/** Reads a whole file. Throws an error that says why it cannot. */
export type ReadFile = (path: string) => Uint8Array

/** Many times what the certificate authorities of a system take. */
const maxBytes = 4 * 2 ** 20
/** For a pipe, such as one from a command that fetches the secret. */
const maxWaitMs = 10_000
const pollMs = 20

/** A startup must not hang without a word: on a pipe into which nothing is written, or on a device that never ends. */
export function readSystemFile(path: string, waitMs = maxWaitMs): Buffer {
  const fd = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
  try {
    return readWhole(fd, waitMs)
  } finally {
    closeSync(fd)
  }
}

function readWhole(fd: number, waitMs: number): Buffer {
  const giveUpAtMs = performance.now() + waitMs
  const isPipe = fstatSync(fd).isFIFO()
  const chunks: Buffer[] = []
  for (let length = 0; length <= maxBytes; ) {
    const chunk = readChunk(fd)
    // A named pipe without a writer looks like an empty file, and its writer may still come.
    if (chunk === undefined || (isPipe && length + chunk.length === 0)) {
      if (performance.now() > giveUpAtMs) throw new Error(`the pipe did not end within ${waitMs} ms`)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pollMs)
    } else {
      if (chunk.length === 0) return Buffer.concat(chunks)
      chunks.push(chunk)
      length += chunk.length
    }
  }
  throw new Error(`it has more than ${maxBytes} bytes`)
}

/** Undefined: nothing has come yet. */
function readChunk(fd: number): Buffer | undefined {
  const chunk = Buffer.alloc(65_536)
  try {
    return chunk.subarray(0, readSync(fd, chunk))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return undefined
    throw error
  }
}

/** The text of a file, or what would be right in its place. `expected` repeats nothing of the text. */
export function readText(path: string, readFile: ReadFile): { text: string } | { expected: string } {
  let bytes: Uint8Array
  try {
    bytes = readFile(path)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return { expected: `a file that quotegate can read (${code ?? message})` }
  }
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) }
  } catch {
    return { expected: 'a file of UTF-8 text' }
  }
}
