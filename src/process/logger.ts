import { constants, openSync } from 'node:fs'
import { Writable } from 'node:stream'
import { pino } from 'pino'
import { createLogOutput, type LogOutput } from './log-output.ts'

type Write = (members: object, message: string) => void
export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** What a gateway may be given to log to: every logger of pino's is one, and so is `console`. */
export interface GatewayLogger {
  debug: Write
  info: Write
  warn: Write
  error: Write
  /** Spares the work for lines that nobody wants. Without it all are wanted. */
  isLevelEnabled?: (level: LogLevel) => boolean
}

/** Without children: pino lets what they are born with past the formatter that blots secrets out. */
export type Logger = Required<GatewayLogger>

/** The program's own, which also has a word for its end. */
export interface ProgramLogger extends Logger {
  fatal: Write
}

export interface LoggerOptions {
  level: string
  format: 'auto' | 'json' | 'pretty'
  /** Where lines go; standard output unless a test says otherwise. */
  destination?: LogOutput
}

/** Whatever is logged by mistake under one of these names is blotted out; nothing logs them on purpose. */
const secretNames: ReadonlySet<string> = new Set([
  'authorization',
  'swap_authorization',
  'proxy-authorization',
  'cookie',
  'set-cookie',
  'x-signature',
])
const blot = '****'
const deepest = 6

export async function createLogger(options: LoggerOptions): Promise<ProgramLogger> {
  const pretty = options.format === 'pretty' || (options.format === 'auto' && process.stdout.isTTY === true)
  const settings: pino.LoggerOptions = {
    level: options.level,
    base: null,
    // Not pino's own redaction: its paths know neither the case of a name nor where it will stand.
    formatters: { log: (members) => membersForLog(members) },
    // Errors are plain data by then, which pino would take for an error again.
    serializers: { err: (plain) => plain },
  }
  const output = options.destination ?? standardOutput((lines) => logger.warn({ lines }, lostLines))
  const destination = pretty ? await prettied(output, options.destination === undefined) : output
  const logger = pino(settings, destination)
  return logger
}

const lostLines = 'lines of this log were lost: nobody took them'

function standardOutput(onLost: (lines: number) => void): LogOutput {
  // Asked for, because that makes a pipe give an error where it would otherwise block the whole process.
  void process.stdout.writable
  return createLogOutput({ fd: process.stdout.isTTY === true ? terminal() : 1, onLost })
}

/**
 * Node writes to a terminal and waits, and with it would everything else while somebody holds that with Ctrl-S. Opened
 * anew it gives an error instead, where the system lets it be.
 */
function terminal(): number {
  try {
    return openSync('/proc/self/fd/1', constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
  } catch {
    return 1
  }
}

async function prettied(output: LogOutput, isStandardOutput: boolean): Promise<LogOutput> {
  // Loaded only where a person reads along; a server starts without it.
  const { default: prettyStream } = await import('pino-pretty')
  return prettyStream({
    colorize: isStandardOutput && process.stdout.isTTY === true,
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
  return { debug: ignore, info: ignore, warn: ignore, error: ignore, isLevelEnabled: () => false }
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
    isSecretName(name) && value !== undefined ? blot : valueForLog(value, depth + 1),
  ])
  return Object.fromEntries(shown)
}

function valueForLog(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return value
  if (depth > deepest) return '[…]'
  if (value instanceof Error) return errorForLog(value, depth)
  // Raw headers are lists of a name, its value, a name, its value.
  if (Array.isArray(value)) {
    return value.map((item, index) =>
      index % 2 === 1 && isSecretName(value[index - 1]) ? blot : valueForLog(item, depth + 1),
    )
  }
  const prototype = Object.getPrototypeOf(value)
  if (prototype === null || prototype === Object.prototype) return membersForLog(value, depth)
  // Named, not opened: a request or a socket holds every secret there is.
  return `[${prototype.constructor?.name ?? 'object'}]`
}

function isSecretName(name: unknown): boolean {
  return typeof name === 'string' && secretNames.has(name.toLowerCase())
}

/** An error with its causes, as plain data; a stack only for what nobody expected. */
function errorForLog(error: Error, depth: number): Record<string, unknown> {
  const { code } = error as { code?: unknown }
  return {
    name: error.name,
    message: error.message,
    ...(code === undefined ? { stack: error.stack } : { code: valueForLog(code, depth + 1) }),
    ...(error.cause === undefined ? {} : { cause: valueForLog(error.cause, depth + 1) }),
  }
}
