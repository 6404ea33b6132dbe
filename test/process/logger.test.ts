import { PassThrough } from 'node:stream'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { createLogger } from '../../src/process/logger.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

const wasTerminal = process.stdout.isTTY
afterEach(() => {
  process.stdout.isTTY = wasTerminal
})

test.each([
  ['json', false, 'json'],
  ['json', true, 'json'],
  ['auto', false, 'json'],
  ['pretty', false, 'pretty'],
  ['auto', true, 'pretty'],
] as const)(
  'LOG_FORMAT=%s, in a terminal: %s, is %s',
  async (format, isTTY, expected) => {
    process.stdout.isTTY = isTTY
    let text = ''
    const destination = new PassThrough()
      .setEncoding('utf8')
      .on('data', (chunk: string) => {
        text += chunk
      })
    const logger = await createLogger({ level: 'info', format, destination })
    logger.warn({ peer: '10.1.2.3' }, 'hello')
    await vi.waitFor(() => expect(text).toContain('hello'))
    if (expected === 'json') {
      expect(JSON.parse(text)).toMatchObject({
        level: levels.warn,
        peer: '10.1.2.3',
        msg: 'hello',
      })
    } else {
      expect(text).toMatch(/^\[?\d\d:\d\d:\d\d\.\d{3}\]? WARN: hello\n/)
      expect(text).toContain('peer: "10.1.2.3"')
    }
  },
)

test('nothing is logged below the level', async () => {
  const log = await keptLog('warn')
  log.logger.info({}, 'not this')
  log.logger.warn({}, 'but this')
  expect(log.lines().map(({ msg }) => msg)).toEqual(['but this'])
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
    ['deeper', { request: { options: { headers: secrets } } }],
    ['in a list', { requests: [{ headers: secrets }] }],
    ['in raw headers', { rawHeaders: Object.entries(secrets).flat() }],
  ])('is masked %s, whatever the case of its name', async (_where, members) => {
    const log = await keptLog()
    log.logger.info(members, 'by mistake')
    expect(log.text()).not.toContain('sk_live')
    expect(log.text()).toContain('****')
  })

  test('does not affect the fields next to it, which are logged unchanged', async () => {
    const log = await keptLog()
    const members = {
      headers: { Cookie: 'sk_live_1', 'X-Request-Id': 'id-1' },
      status: 200,
      at: new Date(0),
    }
    log.logger.info(members, 'beside')
    const headers = { Cookie: '****', 'X-Request-Id': 'id-1' }
    expect(log.lines()[0]).toMatchObject({
      headers,
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

test('an error is logged with its causes, and with a stack only if it has no code', async () => {
  const refused = Object.assign(new Error('connect ECONNREFUSED'), {
    code: 'ECONNREFUSED',
  })
  const itself = new Error('around')
  itself.cause = itself
  const log = await keptLog()
  log.logger.error(
    { cause: new Error('boom', { cause: refused }), err: itself },
    'failed',
  )
  const [line] = log.lines()
  expect(line?.cause).toEqual({
    name: 'Error',
    message: 'boom',
    stack: expect.stringContaining('logger.test.ts'),
    cause: { name: 'Error', message: 'connect ECONNREFUSED', code: 'ECONNREFUSED' },
  })
  expect(line).toMatchObject({ msg: 'failed', err: { message: 'around' } })
})
