import { writeSync } from 'node:fs'

export interface LogOutput {
  write(line: string): void
}

export interface LogOutputOptions {
  fd: number
  /** Told once the output takes lines again, with how many it has missed. */
  onLost(lines: number): void
  /** The system call; a test hands in one that fails. */
  writeBytes?: (fd: number, bytes: Buffer) => number
}

/** Lines that wait for an output that takes none: enough for a pause in the reader, too little to hurt. */
const waitingBytesMost = 1_048_576
const retryAfterMs = 250

/**
 * Standard output as a log that can never harm the service: a full disk, a reader that stands still and a reader
 * that has gone cost lines, and nothing else. What pino does by itself throws, blocks, or keeps all in memory.
 */
export function createLogOutput(options: LogOutputOptions): LogOutput {
  const { fd, onLost, writeBytes = writeSync } = options
  const waiting: Buffer[] = []
  let waitingBytes = 0
  let lost = 0
  let retryTimer: NodeJS.Timeout | undefined
  let gone = false

  function writeOut(): void {
    while (waiting.length > 0) {
      const [first] = waiting as [Buffer]
      const written = writeBytes(fd, first)
      waitingBytes -= written
      if (written < first.length) waiting[0] = first.subarray(written)
      else waiting.shift()
    }
  }

  function flush(): void {
    try {
      writeOut()
    } catch (error) {
      // Nobody will read again. Anything else may pass: a full disk, a full pipe.
      gone = (error as NodeJS.ErrnoException).code === 'EPIPE'
      if (gone) waiting.length = 0
      else retryTimer ??= setTimeout(retry, retryAfterMs).unref()
    }
  }

  function retry(): void {
    retryTimer = undefined
    flush()
    if (waiting.length > 0 || lost === 0) return
    const missed = lost
    lost = 0
    onLost(missed)
  }

  process.once('exit', flush)

  return {
    write(line) {
      if (gone) return
      const bytes = Buffer.from(line)
      if (waiting.length > 0 && waitingBytes + bytes.length > waitingBytesMost) {
        lost += 1
        return
      }
      waiting.push(bytes)
      waitingBytes += bytes.length
      if (retryTimer === undefined) flush()
    },
  }
}
