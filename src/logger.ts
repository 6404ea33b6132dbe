import { type DestinationStream, type Logger, pino } from 'pino'

export type { Logger }

export interface LoggerOptions {
  level: string
  format: 'auto' | 'json' | 'pretty'
  /** Where lines go; standard output unless a test says otherwise. */
  destination?: DestinationStream
}

/** Whatever is logged by mistake under one of these names is blotted out; nothing logs them on purpose. */
const secretNames = ['authorization', 'cookie', 'set-cookie', 'x-signature', 'proxy-authorization']
const redactedPaths = secretNames.flatMap((name) => [
  `["${name}"]`,
  `headers["${name}"]`,
  `*.headers["${name}"]`,
])

export async function createLogger(options: LoggerOptions): Promise<Logger> {
  const pretty = options.format === 'pretty' || (options.format === 'auto' && process.stdout.isTTY === true)
  const settings = {
    level: options.level,
    base: null,
    redact: { paths: redactedPaths, censor: '****' },
    serializers: { cause: causeForLog, err: causeForLog },
  }
  if (!pretty) return options.destination ? pino(settings, options.destination) : pino(settings)
  // Loaded only where a person reads along; a server starts without it.
  const { default: prettyStream } = await import('pino-pretty')
  const destination = options.destination as NodeJS.WritableStream | undefined
  return pino(
    settings,
    prettyStream({
      colorize: destination === undefined && process.stdout.isTTY === true,
      translateTime: 'SYS:HH:MM:ss.l',
      ignore: 'pid,hostname',
      sync: true,
      ...(destination ? { destination } : {}),
    }),
  )
}

export function silentLogger(): Logger {
  return pino({ level: 'silent' })
}

/** An error with its causes, as plain data; a stack only for what nobody expected. */
function causeForLog(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const { code } = error as { code?: unknown }
  return {
    name: error.name,
    message: error.message,
    ...(code === undefined ? { stack: error.stack } : { code }),
    ...(error.cause === undefined ? {} : { cause: causeForLog(error.cause) }),
  }
}
