import { afterEach, describe, expect, test } from 'vitest'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'
import { killPrograms, startProgram } from '../support/gateways/program.ts'

afterEach(killPrograms)

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`
const freePorts = { PORT: '0', ADMIN_PORT: '0' }

/** Makes the program do something unexpected when it gets SIGUSR2. */
function onUserSignal(statement: string): Record<string, string> {
  const code = `process.on('SIGUSR2', () => { ${statement} })`
  return { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(code)}` }
}

describe.each([
  ['an unhandled rejection', "Promise.reject(new Error('boom', { cause: new Error('spark') }))"],
  ['an uncaught error', "throw new Error('boom', { cause: new Error('spark') })"],
])('%s', (_name, statement) => {
  test('is logged with its cause; requests in flight are answered; then the process ends with exit code 1', async () => {
    const waiting: (() => void)[] = []
    const upstream = await recordingUpstream((_request, response) =>
      waiting.push(() => response.end('whole')),
    )
    const program = startProgram([], {
      ...freePorts,
      ...onUserSignal(statement),
      LOG_FORMAT: 'json',
      SWAP_BASE_URL: upstream.url,
    })
    const [, url = '', operationsUrl = ''] = await program.says(
      /"trafficUrl":"(.+?)","operationsUrl":"(.+?)"/,
    )
    const client = new RawConnection(url)
    client.write(get('/v3/pairs'))
    await until(() => waiting.length === 1, 'the request to arrive')
    program.child.kill('SIGUSR2')
    const [line] = await program.says(/.*"level":"fatal".*/)
    expect(JSON.parse(line)).toMatchObject({
      cause: { message: 'boom', stack: expect.stringContaining('boom'), cause: { message: 'spark' } },
    })
    expect((await rawExchange(operationsUrl, get('/readyz'))).status).toBe(503)
    waiting[0]?.()
    expect((await client.answer()).body.toString()).toBe('whole')
    expect((await program.exit).code).toBe(1)
  })
})

test('an error that repeats does not fill the log or delay the shutdown', async () => {
  const statement = "setInterval(() => { throw new Error('again') }, 1)"
  const program = startProgram([], { ...freePorts, ...onUserSignal(statement), LOG_FORMAT: 'json' })
  const [, url = ''] = await program.says(/"trafficUrl":"(.+?)"/)
  const silent = new RawConnection(url)
  await new Promise((resolve) => silent.socket.once('connect', resolve))
  program.child.kill('SIGUSR2')
  const { code, stdout } = await program.exit
  expect(code).toBe(1)
  expect(stdout.match(/"again"/g)?.length).toBeLessThanOrEqual(10)
})

test('a late write to a client that has left harms no other client', async () => {
  const waiting: (() => void)[] = []
  const upstream = await recordingUpstream((_request, response) => {
    waiting.push(() => {
      response.write('late')
      response.end('later')
    })
  })
  const gateway = await gatewayTo(upstream.url)
  for (let count = 0; count < 10; count += 1) {
    const client = new RawConnection(gateway.url)
    client.write(get('/checkouts'))
    await until(() => waiting.length === count + 1, 'the request to arrive')
    client.socket.resetAndDestroy()
    waiting[count]?.()
  }
  upstream.answer((_request, response) => response.end('alive'))
  expect((await rawExchange(gateway.url, get('/checkouts'))).body.toString()).toBe('alive')
})
