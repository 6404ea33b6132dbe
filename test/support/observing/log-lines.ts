import { createLogger, type ProgramLogger } from '../../../src/process/logger.ts'

export interface LogLine {
  level: number
  msg: string
  [member: string]: unknown
}

export const levels = { debug: 20, info: 30, warn: 40, error: 50 } as const

/** A JSON logger that keeps what it says: as text, and line by line. */
export async function keptLog(level = 'trace'): Promise<{
  logger: ProgramLogger
  text(): string
  lines(atLeast?: number): LogLine[]
}> {
  const kept: string[] = []
  const destination = { write: (line: string) => kept.push(line) }
  const logger = await createLogger({ level, format: 'json', destination })
  return {
    logger,
    text: () => kept.join(''),
    lines: (atLeast = 0) =>
      kept.map((line) => JSON.parse(line) as LogLine).filter((line) => line.level >= atLeast),
  }
}
