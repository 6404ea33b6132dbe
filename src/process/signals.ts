import type { ProgramLogger } from './logger.ts'

export interface Ending {
  log: ProgramLogger
  close(): Promise<void>
}

/**
 * One wish can arrive twice: a Ctrl-C goes to `npm start` and to the process below it, and npm hands on what it got.
 */
const sameWishMs = 500

/** A signal ends the process in good order, a second one at once. SIGHUP is what a terminal says that is closed. */
export function endOnSignal({ log, close }: Ending): void {
  let endingSinceMs: number | undefined
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(signal, () => {
      const nowMs = performance.now()
      if (endingSinceMs !== undefined) {
        if (nowMs - endingSinceMs < sameWishMs) return
        log.warn({ signal }, 'a second signal: ending at once, what is in flight is cut')
        process.exit(1)
      }
      endingSinceMs = nowMs
      log.info({ signal }, 'stopping: what is in flight is answered first')
      close().then(() => {
        log.info({}, 'stopped')
        process.exit()
      }, failedToClose)
    })
  }
}

/** Past this many, one of them has become the rule and would only fill the log. */
const loggedMost = 10

/**
 * An error that nobody handled leaves a state that nobody knows: the others get their answers, then the process
 * ends, to be started anew.
 */
export function endOnCrash({ log, close }: Ending): void {
  let crashes = 0
  process.on('uncaughtException', (error: unknown, origin) => {
    crashes += 1
    if (crashes <= loggedMost) {
      log.fatal(
        { origin, cause: error },
        'an error that nobody handled: answering what is in flight, then ending',
      )
    }
    // Whoever else ends the process meanwhile, a signal for one, must not call it a success.
    process.exitCode = 1
    if (crashes === 1) close().then(() => process.exit(), failedToClose)
  })
}

/** A terminal or pipe that is gone must not take the service with it. */
export function ignoreClosedOutput(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
}

function failedToClose(error: unknown): void {
  process.stderr.write(`${(error as Error)?.stack ?? error}\n`)
  process.exit(1)
}
