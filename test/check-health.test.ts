import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { killPrograms, startProgram } from './support/gateways/program.ts'

afterEach(killPrograms)

const checkHealth = (settings: Record<string, string>, ...url: string[]) =>
  startProgram(['--check-health', ...url], settings).exit

const healthy = { code: 0, stdout: '', stderr: '' }

/** The port of the operations listener. */
async function startGateway(settings: Record<string, string>): Promise<string> {
  const program = startProgram([], { PORT: '0', ADMIN_PORT: '0', LOG_FORMAT: 'json', ...settings })
  const [, url = ''] = await program.says(/"operationsUrl":"(.+?)"/)
  return new URL(url).port
}

async function startServer(answer: RequestListener, host = '127.0.0.1'): Promise<number> {
  const server = createServer(answer)
  await once(server.listen(0, host), 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

describe('--check-health', () => {
  test('exits 0 and prints nothing if the gateway answers', async () => {
    expect(await checkHealth({ ADMIN_PORT: await startGateway({}) })).toEqual(healthy)
  })

  test('asks the address in ADMIN_HOST, or else the one in HOST', async () => {
    // At the address asked without ADMIN_HOST, something else says that it is not well.
    const ADMIN_PORT = String(await startServer((_, response) => response.writeHead(503).end()))
    await startGateway({ ADMIN_HOST: '127.0.0.2', ADMIN_PORT })
    expect(await checkHealth({ ADMIN_HOST: '127.0.0.2', ADMIN_PORT })).toEqual(healthy)
    expect(await checkHealth({ HOST: '127.0.0.2', ADMIN_PORT })).toEqual(healthy)
    expect(await checkHealth({ ADMIN_PORT })).toEqual({
      code: 1,
      stdout: '',
      stderr: `http://127.0.0.1:${ADMIN_PORT}/healthz answered 503\n`,
    })
  })

  test.each(['0.0.0.0', '::', '::1', '[::1]'])('finds a gateway whose HOST is %s', async (HOST) => {
    const ADMIN_PORT = await startGateway({ HOST })
    expect(await checkHealth({ HOST, ADMIN_PORT })).toEqual(healthy)
  })

  test('asks the URL that it is given', async () => {
    const port = await startServer(({ url }, response) => {
      response.writeHead(url === '/sandbox/faults' ? 200 : 404).end('{}')
    })
    expect(await checkHealth({}, `http://127.0.0.1:${port}/sandbox/faults`)).toEqual(healthy)
    expect((await checkHealth({}, `http://127.0.0.1:${port}/`)).code).toBe(1)
  })

  test('exits 1 and prints why if nothing listens', async () => {
    const { code, stderr } = await checkHealth({ ADMIN_PORT: '1' })
    expect(code).toBe(1)
    expect(stderr).toMatch(/^http:\/\/127\.0\.0\.1:1\/healthz: .*ECONNREFUSED.*\n$/)
  })

  test('exits 1 if no answer comes', async () => {
    const port = await startServer(() => {})
    const { code, stderr } = await checkHealth({ ADMIN_PORT: String(port) })
    expect([code, stderr]).toEqual([1, `http://127.0.0.1:${port}/healthz: no answer within 2500 ms\n`])
  })

  test.each([['nonsense'], ['https://127.0.0.1/']])(
    'exits 1 with a URL that it cannot ask: %s',
    async (url) => {
      const { code, stderr } = await checkHealth({}, url)
      expect(code).toBe(1)
      expect(stderr).toMatch(new RegExp(`^${url}: .+\n$`))
    },
  )

  test('cannot be combined with other flags', async () => {
    const { code, stderr } = await startProgram(['--check-config', '--check-health']).exit
    expect([code, stderr.split('\n')[0]]).toEqual([
      1,
      '--check-health cannot be combined with other flags: --check-health [url]',
    ])
  })
})
