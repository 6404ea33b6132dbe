import { writeSync } from 'node:fs'

export interface LogOutput {
  write(line: string): void
}

interface LogOutputOptions {
  fd: number
  /** Called once the output accepts lines again, with the number of lines that were lost. */
  onLost(lines: number): void
  /** The system call; tests pass one that fails. */
  writeBytes?: (fd: number, bytes: Buffer) => number
}

/** Lines kept while the output accepts none: enough for a pause of its reader, too little to matter. */
const maxWaitingBytes = 1_048_576
const retryAfterMs = 250

/**
 * Standard output as a log that cannot harm the service: a full disk, a stalled reader and a closed pipe cost log lines
 * and nothing else. Pino's own outputs throw, block, or keep everything in memory.
 */
export function createLogOutput(options: LogOutputOptions): LogOutput {
  const { fd, onLost, writeBytes = writeSync } = options
  const waiting: Buffer[] = []
  let waitingBytes = 0
  let lost = 0
  let retryTimer: NodeJS.Timeout | undefined
  let gone = false

  function flush(): void {
    retryTimer = undefined
    try {
      for (let [first] = waiting; first !== undefined; [first] = waiting) {
        const written = writeBytes(fd, first)
        waitingBytes -= written
        if (written < first.length) waiting[0] = first.subarray(written)
        else waiting.shift()
      }
    } catch (error) {
      // EPIPE is final, because the reader has closed the pipe. A full disk or a full pipe may pass.
      gone = (error as NodeJS.ErrnoException).code === 'EPIPE'
      if (gone) waiting.length = 0
      else retryTimer = setTimeout(flush, retryAfterMs).unref()
      return
    }
    const missed = lost
    lost = 0
    if (missed > 0) onLost(missed)
  }

  process.once('exit', flush)

  return {
    write(line) {
      if (gone) return
      const bytes = Buffer.from(line)
      if (waiting.length > 0 && waitingBytes + bytes.length > maxWaitingBytes) {
        lost += 1
        return
      }
      waiting.push(bytes)
      waitingBytes += bytes.length
      if (retryTimer === undefined) flush()
    },
  }
}
