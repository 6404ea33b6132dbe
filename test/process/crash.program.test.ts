import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { get, RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { recordedGateway, recordingUpstream, until } from '../support/gateways/between.ts'
import { startListening } from '../support/gateways/program.ts'

/** A program that does this when it gets SIGUSR2, and a client that is connected to it. */
async function startedToFail(statement: string, settings: Record<string, string> = {}) {
  const code = `process.on('SIGUSR2', () => { ${statement} })`
  const NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent(code)}`
  const program = await startListening({ NODE_OPTIONS, ...settings })
  const client = new RawConnection(program.url)
  await once(client.socket, 'connect')
  return {
    program,
    client,
    operationsUrl: program.operationsUrl,
    fail: () => program.child.kill('SIGUSR2'),
  }
}

test.each([
  ['an unhandled rejection', 'Promise.reject(error)'],
  ['an uncaught error', 'throw error'],
])(
  '%s is logged with its cause; requests in flight are answered; then the exit code is 1',
  async (_name, then) => {
    const waiting: (() => void)[] = []
    const upstream = await recordingUpstream((_request, response) =>
      waiting.push(() => response.end('whole')),
    )
    const statement = `const error = new Error('boom', { cause: new Error('spark') }); ${then}`
    const { program, client, operationsUrl, fail } = await startedToFail(statement, {
      SWAP_BASE_URL: upstream.url,
    })
    client.write(get('/v3/pairs'))
    await until(() => waiting.length === 1, 'the request to arrive')
    fail()
    const [line] = await program.says(/.*"level":"fatal".*/)
    expect(JSON.parse(line)).toMatchObject({
      cause: {
        message: 'boom',
        stack: expect.stringContaining('boom'),
        cause: { message: 'spark' },
      },
    })
    expect((await rawExchange(operationsUrl, get('/readyz'))).status).toBe(503)
    waiting[0]?.()
    expect((await client.answer()).body.toString()).toBe('whole')
    expect((await program.exit).code).toBe(1)
  },
)

test('an error that repeats does not fill the log or delay the shutdown', async () => {
  const { program, fail } = await startedToFail(
    "setInterval(() => { throw new Error('again') }, 1)",
  )
  fail()
  const { code, stdout } = await program.exit
  expect(code).toBe(1)
  expect(stdout.match(/"again"/g)?.length).toBeLessThanOrEqual(10)
})

test('a late write to a client that has left harms no other client', async () => {
  const waiting: (() => void)[] = []
  const { upstream, gateway } = await recordedGateway({}, (_request, response) => {
    waiting.push(() => {
      response.write('late')
      response.end('later')
    })
  })
  for (let count = 0; count < 10; count += 1) {
    const client = new RawConnection(gateway.url, get('/checkouts'))
    await until(() => waiting.length === count + 1, 'the request to arrive')
    client.socket.resetAndDestroy()
    waiting[count]?.()
  }
  upstream.answer((_request, response) => response.end('alive'))
  expect((await rawExchange(gateway.url, get('/checkouts'))).body.toString()).toBe(
    'alive',
  )
})

// A startup with STATE_DIRECTORY=/proc/state and its --check-config ran forever, with a whole core.
test.skipIf(process.platform !== 'linux')(
  'a folder below /proc, where none can be made, is an error',
  () => {
    const file = fileURLToPath(new URL('../../src/process/folders.ts', import.meta.url))
    const script = `const { makeFolders } = await import(${JSON.stringify(file)}); makeFolders('/proc/state/deeper')`
    const options = ['--import', 'tsx', '--input-type=module', '--eval', script]
    // Without an end of its own, the test would run forever too.
    const { status, stderr } = spawnSync(process.execPath, options, {
      timeout: 60_000,
      encoding: 'utf8',
    })
    expect(stderr).toContain('ENOENT')
    expect(status).toBe(1)
  },
)
