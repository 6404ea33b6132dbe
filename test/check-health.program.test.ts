import { createServer, type RequestListener } from 'node:http'
import { describe, expect, test } from 'vitest'
import { healthUrl } from '../src/process/check-health.ts'
import { startListening, startProgram } from './support/gateways/program.ts'
import { listening } from './support/machine/listening.ts'

const checkHealth = (settings: Record<string, string>, ...url: string[]) =>
  startProgram(['--check-health', ...url], settings).exit

const healthy = { code: 0, stdout: '', stderr: '' }

/** The port of the operations listener. */
async function startGateway(settings: Record<string, string>): Promise<string> {
  return new URL((await startListening(settings)).operationsUrl).port
}

async function startServer(answer: RequestListener): Promise<string> {
  return String((await listening(createServer(answer))).port)
}

describe('--check-health', () => {
  test('asks the address in ADMIN_HOST, or else the one in HOST, and prints nothing if the gateway answers', async () => {
    // At the address asked without ADMIN_HOST, something else says that it is not well.
    const ADMIN_PORT = await startServer((_, response) => response.writeHead(503).end())
    await startGateway({ ADMIN_HOST: '127.0.0.2', ADMIN_PORT })
    expect(await checkHealth({ ADMIN_HOST: '127.0.0.2', ADMIN_PORT })).toEqual(healthy)
    expect(await checkHealth({ HOST: '127.0.0.2', ADMIN_PORT })).toEqual(healthy)
    const stderr = `http://127.0.0.1:${ADMIN_PORT}/healthz answered 503\n`
    expect(await checkHealth({ ADMIN_PORT })).toEqual({ code: 1, stdout: '', stderr })
  })

  test.each([
    [{ HOST: '0.0.0.0' }, '0.0.0.0:8081'],
    [{ HOST: '::', ADMIN_PORT: '9' }, '[::]:9'],
    [{ HOST: '10.0.0.1', ADMIN_HOST: '[::1]' }, '[::1]:8081'],
    [{ HOST: '', ADMIN_PORT: '' }, '127.0.0.1:8081'],
    // The settings are trimmed too.
    [{ HOST: ' 10.0.0.1 ', ADMIN_HOST: ' ', ADMIN_PORT: '9 ' }, '10.0.0.1:9'],
  ])('with %j asks %s', (settings, host) =>
    expect(healthUrl(settings)).toBe(`http://${host}/healthz`),
  )

  test('finds a gateway that listens at every address', async () => {
    const ADMIN_PORT = await startGateway({ HOST: '::' })
    expect(await checkHealth({ HOST: '::', ADMIN_PORT })).toEqual(healthy)
  })

  test('asks the URL that it is given', async () => {
    const port = await startServer(({ url }, response) => {
      response.writeHead(url === '/sandbox/faults' ? 200 : 404).end('{}')
    })
    expect(await checkHealth({}, `http://127.0.0.1:${port}/sandbox/faults`)).toEqual(
      healthy,
    )
    expect((await checkHealth({}, `http://127.0.0.1:${port}/`)).code).toBe(1)
  })

  test.each([
    [
      ['--check-health', 'http://127.0.0.1:1/healthz'],
      /^http:\S+:1\/healthz: .*ECONNREFUSED.*\n$/,
    ],
    [['--check-health', 'nonsense'], /^nonsense: .+\n$/],
    [['--check-health', 'https://127.0.0.1/'], /^https:\/\/127\.0\.0\.1\/: .+\n$/],
    [
      ['--check-config', '--check-health'],
      /^--check-health cannot be combined with other flags/,
    ],
  ])(
    'exits 1 with a URL that it cannot ask, and beside other flags: %j',
    async (flags, reason) => {
      const { code, stderr } = await startProgram(flags).exit
      expect(code).toBe(1)
      expect(stderr).toMatch(reason)
    },
  )

  test('exits 1 if no answer comes', async () => {
    const ADMIN_PORT = await startServer(() => {})
    const { code, stderr } = await checkHealth({ ADMIN_PORT })
    expect([code, stderr]).toEqual([
      1,
      `http://127.0.0.1:${ADMIN_PORT}/healthz: no answer within 2500 ms\n`,
    ])
  })
})
