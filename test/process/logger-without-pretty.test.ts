import { PassThrough } from 'node:stream'
import { expect, test, vi } from 'vitest'
import { createLogger } from '../../src/process/logger.ts'

// As after npm install --omit=optional.
vi.mock('pino-pretty', () => {
  throw new Error('not installed')
})

test('where pino-pretty is not installed, lines for a terminal are JSON', async () => {
  process.stdout.isTTY = true
  const destination = new PassThrough({ encoding: 'utf8' })
  const logger = await createLogger({ level: 'info', format: 'auto', destination })
  logger.info({}, 'listening')
  expect(JSON.parse(destination.read())).toMatchObject({
    level: 'info',
    msg: 'listening',
  })
})

test('LOG_FORMAT=pretty without pino-pretty says what to install', () =>
  expect(createLogger({ level: 'info', format: 'pretty' })).rejects.toThrow(
    /needs pino-pretty/,
  ))
