import type { ProgramLogger } from './logger.ts'

type Close = () => Promise<void>

/** A signal ends the process in good order, a second one at once. */
export function endOnSignal(close: Close): void {
  let ending = false
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (ending) process.exit(1)
      ending = true
      close().then(() => process.exit(), failedToClose)
    })
  }
}

/** Past this many, one of them has become the rule and would only fill the log. */
const loggedMost = 10

/**
 * An error that nobody handled leaves a state that nobody knows: the others get their answers, then the process
 * ends, to be started anew.
 */
export function endOnCrash({ log, close }: { log: Pick<ProgramLogger, 'fatal'>; close: Close }): void {
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
