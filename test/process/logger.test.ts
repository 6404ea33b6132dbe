import { PassThrough } from 'node:stream'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { createLogger } from '../../src/process/logger.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

function keptText() {
  const chunks: Buffer[] = []
  const destination = new PassThrough()
  destination.on('data', (chunk: Buffer) => chunks.push(chunk))
  return { destination, text: () => Buffer.concat(chunks).toString() }
}

const wasTerminal = process.stdout.isTTY
afterEach(() => {
  process.stdout.isTTY = wasTerminal
})

async function lineIn(format: 'auto' | 'json' | 'pretty', isTTY: boolean): Promise<string> {
  process.stdout.isTTY = isTTY
  const { destination, text } = keptText()
  const logger = await createLogger({ level: 'info', format, destination })
  logger.warn({ peer: '10.1.2.3' }, 'hello')
  await vi.waitFor(() => expect(text()).toContain('hello'))
  return text()
}

describe('the format', () => {
  test.each([
    ['json', false],
    ['json', true],
    ['auto', false],
  ] as const)('%s is one JSON object a line (in a terminal: %s)', async (format, isTTY) => {
    const text = await lineIn(format, isTTY)
    expect(text.trimEnd().split('\n')).toHaveLength(1)
    expect(JSON.parse(text)).toMatchObject({ level: levels.warn, peer: '10.1.2.3', msg: 'hello' })
  })

  test.each([
    ['pretty', false],
    ['pretty', true],
    ['auto', true],
  ] as const)('%s can be read by a person (in a terminal: %s)', async (format, isTTY) => {
    const text = await lineIn(format, isTTY)
    expect(text).toMatch(/^\[?\d\d:\d\d:\d\d\.\d{3}\]? WARN: hello\n/)
    expect(text).toContain('peer: "10.1.2.3"')
  })

  test('logs nothing below its level', async () => {
    const log = await keptLog('warn')
    log.logger.info({}, 'not this')
    log.logger.warn({}, 'but this')
    expect(log.lines().map(({ msg }) => msg)).toEqual(['but this'])
  })
})

describe('a secret that is logged by mistake', () => {
  const secrets = {
    authorization: 'Bearer sk_live_1',
    Authorization: 'Bearer sk_live_2',
    COOKIE: 'session=sk_live_3',
    'Set-Cookie': ['session=sk_live_4'],
    'X-Signature': 'sk_live_5',
    'proxy-authorization': 'Basic sk_live_6',
  }

  test.each([
    ['at the top', secrets],
    ['in headers', { headers: secrets }],
    ['deeper', { request: { options: { headers: secrets } } }],
    ['in a list', { requests: [{ headers: secrets }] }],
    ['in raw headers', { rawHeaders: Object.entries(secrets).flat() }],
    ['in a configuration', { config: { swap: { authorization: 'Bearer sk_live_7' } } }],
  ])('is masked %s, whatever the case of its name', async (_where, members) => {
    const log = await keptLog()
    log.logger.info(members, 'by mistake')
    expect(log.text()).not.toContain('sk_live')
    expect(log.text()).toContain('****')
  })

  test('does not affect the fields next to it, which are logged unchanged', async () => {
    const log = await keptLog()
    const members = { headers: { Cookie: 'sk_live_1', 'X-Request-Id': 'id-1' }, status: 200, at: new Date(0) }
    log.logger.info(members, 'beside')
    expect(log.lines()[0]).toMatchObject({
      headers: { Cookie: '****', 'X-Request-Id': 'id-1' },
      status: 200,
      at: '1970-01-01T00:00:00.000Z',
    })
    expect(members.headers.Cookie).toBe('sk_live_1')
  })

  test('does not hang the logger if an object contains itself', async () => {
    const log = await keptLog()
    const loop: Record<string, unknown> = { cookie: 'sk_live_1' }
    loop.self = loop
    log.logger.info({ loop }, 'round and round')
    expect(log.text()).not.toContain('sk_live')
    expect(log.lines()).toHaveLength(1)
  })
})

describe('an error', () => {
  test('is logged with its causes, and with a stack only if it has no code', async () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    const log = await keptLog()
    log.logger.error({ cause: new Error('boom', { cause: refused }) }, 'failed')
    expect(log.lines()[0]?.cause).toEqual({
      name: 'Error',
      message: 'boom',
      stack: expect.stringContaining('logger.test.ts'),
      cause: { name: 'Error', message: 'connect ECONNREFUSED', code: 'ECONNREFUSED' },
    })
  })

  test('that is its own cause is still logged', async () => {
    const error = new Error('boom')
    error.cause = error
    const log = await keptLog()
    log.logger.error({ err: error }, 'failed')
    expect(log.lines()[0]).toMatchObject({ msg: 'failed', err: { message: 'boom' } })
  })
})
