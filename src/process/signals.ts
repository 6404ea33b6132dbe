import type { ProgramLogger } from './logger.ts'

/** npm forwards Ctrl-C, so one keypress can arrive as two signals. */
const sameKeypressMs = 500
/** A recurring error would only fill the log. */
const maxLoggedErrors = 10

interface Handlers {
  close(): Promise<void>
  readAgain(): void
}

/**
 * The first signal shuts down in good order, a second one exits at once. In a terminal SIGHUP is such a signal, sent
 * when the terminal is closed; elsewhere it makes files be read again, unless the shutdown has begun. After an
 * unhandled error the process's state is unknown: it answers the requests in flight and exits, and its supervisor
 * starts a new one.
 */
export function onSignalsAndErrors(
  log: ProgramLogger,
  { close, readAgain }: Handlers,
): void {
  let stoppingSinceMs: number | undefined
  let errors = 0
  const isTerminal = process.stdout.isTTY === true
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (signal === 'SIGHUP' && !isTerminal) {
        if (stoppingSinceMs === undefined && errors === 0) readAgain()
        return
      }
      const nowMs = performance.now()
      if (stoppingSinceMs !== undefined) {
        if (nowMs - stoppingSinceMs < sameKeypressMs) return
        log.warn(
          { signal },
          'second signal: exiting at once and cutting the requests in flight',
        )
        process.exit(1)
      }
      stoppingSinceMs = nowMs
      log.info({ signal }, 'stopping: answering requests in flight first')
      close().then(() => {
        log.info({}, 'stopped')
        process.exit()
      }, exitAfterFailedClose)
    })
  }
  process.on('uncaughtException', (error: unknown, origin) => {
    errors += 1
    if (errors <= maxLoggedErrors) {
      log.fatal(
        { origin, cause: error },
        'unhandled error: answering requests in flight, then exiting',
      )
    }
    // A signal may end the process before `close` does, otherwise with exit code 0.
    process.exitCode = 1
    if (errors === 1) close().then(() => process.exit(), exitAfterFailedClose)
  })
}

/** A closed terminal or pipe would end the process at the next line of output. */
export function ignoreClosedOutput(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
}

function exitAfterFailedClose(error: unknown): void {
  process.stderr.write(`${(error as Error)?.stack ?? error}\n`)
  process.exit(1)
}
