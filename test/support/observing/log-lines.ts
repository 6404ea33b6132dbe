import { createLogger, type ProgramLogger } from '../../../src/process/logger.ts'

export interface LogLine {
  level: Level
  msg: string
  [member: string]: unknown
}

const levelsInOrder = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const
type Level = (typeof levelsInOrder)[number]

export const levels = {
  debug: 'debug',
  info: 'info',
  warn: 'warn',
  error: 'error',
} as const

/** A JSON logger that keeps what it says: as text, and line by line. */
export async function keptLog(level = 'trace'): Promise<{
  logger: ProgramLogger
  text(): string
  lines(atLeast?: Level): LogLine[]
}> {
  const kept: string[] = []
  const destination = { write: (line: string) => kept.push(line) }
  const logger = await createLogger({ level, format: 'json', destination })
  return {
    logger,
    text: () => kept.join(''),
    lines: (atLeast = 'trace') => linesOf(kept.join('')).filter(isAtLeast(atLeast)),
  }
}

/** What a program wrote to its log. */
export function linesOf(text: string): LogLine[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as LogLine)
}

function isAtLeast(least: Level): (line: LogLine) => boolean {
  return ({ level }) => levelsInOrder.indexOf(level) >= levelsInOrder.indexOf(least)
}
