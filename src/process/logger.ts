import { constants, openSync } from 'node:fs'
import { Writable } from 'node:stream'
import { pino, stdTimeFunctions } from 'pino'
import sonic from 'sonic-boom'

type Write = (members: object, message: string) => void
export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** A logger that the program around a gateway passes to it. Every pino logger is one, and so is `console`. */
export interface GatewayLogger {
  debug: Write
  info: Write
  warn: Write
  error: Write
  /** Lets the gateway skip the work for lines that would not be logged. Default: all lines are logged. */
  isLevelEnabled?: (level: LogLevel) => boolean
}

/** Has no `child`: pino writes its bindings without the formatter that masks secrets. */
export type Logger = Required<GatewayLogger>

/** The program's own logger, which also logs why the program ends. */
export interface ProgramLogger extends Logger {
  fatal: Write
}

interface LogOutput {
  write(line: string): void
}

interface LoggerOptions {
  level: string
  format: 'auto' | 'json' | 'pretty'
  /** Default: standard output. */
  destination?: LogOutput
}

/** Masked members. No code logs them on purpose. */
const secretNames: ReadonlySet<string> = new Set(
  'authorization swap_authorization proxy-authorization cookie set-cookie x-signature'.split(
    ' ',
  ),
)
const mask = '****'
const maxDepth = 6
/** Bytes kept while the output accepts none: enough for a pause of its reader. */
const maxWaitingBytes = 1_048_576
const retryAfterMs = 250
/**
 * JSON does not escape these, with which a caller's text could change how a terminal shows the line: further control
 * characters, line separators, and characters that reverse text.
 */
const deceptive = /[\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g

export async function createLogger(options: LoggerOptions): Promise<ProgramLogger> {
  const pretty =
    options.format === 'pretty' ||
    (options.format === 'auto' && process.stdout.isTTY === true)
  const settings: pino.LoggerOptions = {
    level: options.level,
    base: null,
    // pino's own numbers and milliseconds mean nothing to most readers and log stores.
    timestamp: stdTimeFunctions.isoTime,
    // pino's own redaction is case-sensitive and needs the depth of each name.
    formatters: {
      level: (level) => ({ level }),
      log: (members) => membersForLog(members),
    },
    // The formatter has made errors plain data: pino's own serializer would treat it as an error.
    serializers: { err: (plain) => plain },
  }
  const lost = 'lines of this log were lost: standard output did not accept them'
  const output =
    options.destination ?? standardOutput((lines) => logger.warn({ lines }, lost))
  const logger = pino(settings, (pretty && (await prettyOver(output, options))) || output)
  return logger
}

/**
 * Standard output as a log that cannot harm the service: a full disk, a stalled reader or a closed pipe costs only
 * lines.
 */
function standardOutput(onLost: (lines: number) => void): LogOutput {
  const output = new sonic.SonicBoom({
    // Reading `process.stdout` makes a pipe non-blocking: a full pipe is then only an error.
    fd: process.stdout.isTTY === true ? terminal() : 1,
    // Lines are written at once, so that the last ones before an exit are written too.
    sync: true,
    maxLength: maxWaitingBytes,
    // A retry would put the process to sleep.
    retryEAGAIN: () => false,
    // A full buffer drops lines without trying to write: only this timer empties it.
    periodicFlush: retryAfterMs,
    // With 0 nothing would be flushed.
    minLength: 1,
  })
  let lost = 0
  function reportLost(): void {
    const reported = lost
    if (reported > 0) onLost(reported)
    // A lost report is one more line to report.
    if (lost === reported) lost = 0
  }
  output.on('drop', () => {
    lost += 1
  })
  output.on('drain', reportLost)
  // What could not be written stays in the buffer.
  output.on('error', () => {})
  process.once('exit', () => {
    output.flush()
    reportLost()
  })
  // pino would call `flushSync` after a fatal line, which never returns while the disk is full.
  return { write: (line) => void output.write(line) }
}

/**
 * Node's writes to a terminal block, so Ctrl-S would stop the process. Opened again as non-blocking, the terminal gives
 * an error; where that fails, writes block.
 */
function terminal(): number {
  try {
    return openSync(
      '/proc/self/fd/1',
      constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY,
    )
  } catch {
    return 1
  }
}

/**
 * pino-pretty is loaded only for a person at a terminal: a server starts faster without it. The package is optional.
 */
async function prettyOver(output: LogOutput, { format, destination }: LoggerOptions) {
  const loaded = await import('pino-pretty').catch((cause) => {
    if (format === 'auto') return undefined
    throw new Error(
      'LOG_FORMAT=pretty needs pino-pretty: npm install without --omit=optional',
      { cause },
    )
  })
  return loaded?.default({
    colorize: destination === undefined && process.stdout.isTTY === true,
    translateTime: 'SYS:HH:MM:ss.l',
    ignore: 'pid,hostname',
    destination: new Writable({
      decodeStrings: false,
      write(lines: string, _encoding, done) {
        output.write(lines)
        done()
      },
    }),
  })
}

export function silentLogger(): Logger {
  const ignore = () => {}
  return {
    debug: ignore,
    info: ignore,
    warn: ignore,
    error: ignore,
    isLevelEnabled: () => false,
  }
}

export function completeLogger(given: GatewayLogger): Logger {
  if (given.isLevelEnabled !== undefined) return given as Logger
  return {
    debug: (members, message) => given.debug(members, message),
    info: (members, message) => given.info(members, message),
    warn: (members, message) => given.warn(members, message),
    error: (members, message) => given.error(members, message),
    isLevelEnabled: () => true,
  }
}

function membersForLog(members: object, depth = 0): Record<string, unknown> {
  const shown = Object.entries(members).map(([name, value]) => [
    name,
    isSecretName(name) && value !== undefined ? mask : valueForLog(value, depth + 1),
  ])
  return Object.fromEntries(shown)
}

function valueForLog(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return value.replace(deceptive, '\ufffd')
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return value
  if (depth > maxDepth) return '[…]'
  if (value instanceof Error) return errorForLog(value, depth)
  // Raw headers are arrays of name, value, name, value.
  if (Array.isArray(value)) {
    return value.map((item, index) =>
      index % 2 === 1 && isSecretName(value[index - 1])
        ? mask
        : valueForLog(item, depth + 1),
    )
  }
  const prototype = Object.getPrototypeOf(value)
  if (prototype === null || prototype === Object.prototype)
    return membersForLog(value, depth)
  // Only the class is logged: a request or a socket holds secrets.
  return `[${prototype.constructor?.name ?? 'object'}]`
}

function isSecretName(name: unknown): boolean {
  return typeof name === 'string' && secretNames.has(name.toLowerCase())
}

/** An error with its causes, as plain data. An error with a code is expected, so its stack is left out. */
function errorForLog(error: Error, depth: number): Record<string, unknown> {
  const { code } = error as { code?: unknown }
  return {
    name: error.name,
    message: error.message,
    ...(code === undefined
      ? { stack: error.stack }
      : { code: valueForLog(code, depth + 1) }),
    ...(error.cause === undefined ? {} : { cause: valueForLog(error.cause, depth + 1) }),
  }
}
