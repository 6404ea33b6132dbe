import { spawn, spawnSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { builtProgram, killPrograms, startProgram } from '../support/gateways/program.ts'

afterEach(killPrograms)

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`
const freePorts = { PORT: '0', ADMIN_PORT: '0' }

/** Makes the program do something nobody expects when it gets SIGUSR2. */
function onUserSignal(statement: string): Record<string, string> {
  const code = `process.on('SIGUSR2', () => { ${statement} })`
  return { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(code)}` }
}

describe.each([
  ['a rejection that nobody handles', "Promise.reject(new Error('boom', { cause: new Error('spark') }))"],
  ['an error that nobody catches', "throw new Error('boom', { cause: new Error('spark') })"],
])('%s', (_name, statement) => {
  test('is logged with its cause; what is in flight is answered; then the process ends with exit code 1', async () => {
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
    const [line] = await program.says(/.*"level":60.*/)
    expect(JSON.parse(line)).toMatchObject({
      cause: { message: 'boom', stack: expect.stringContaining('boom'), cause: { message: 'spark' } },
    })
    expect((await rawExchange(operationsUrl, get('/readyz'))).status).toBe(503)
    waiting[0]?.()
    expect((await client.answer()).body.toString()).toBe('whole')
    expect((await program.exit).code).toBe(1)
  })
})

test('an error that comes again and again fills no log and does not put off the end', async () => {
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

/** A pipe by its two ends, which Node's own `stdio: 'pipe'` is not: that is a socket. */
function openPipe() {
  const directory = mkdtempSync(join(tmpdir(), 'crash-'))
  const path = join(directory, 'pipe')
  onTestFinished(() => rmSync(directory, { recursive: true }))
  if (spawnSync('mkfifo', [path]).status !== 0) throw new Error('mkfifo failed')
  const readEnd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  return { readEnd, writeEnd: openSync(path, constants.O_WRONLY) }
}

describe('a log that cannot be written', () => {
  /** The program with this for its standard output, on ports that another start has found free. */
  async function startWithOutput(
    stdout: number,
    settings: Record<string, string> = {},
    [file, ...parameters]: [string, ...string[]] = [process.execPath, builtProgram],
  ) {
    const probe = startProgram([], { ...freePorts, LOG_FORMAT: 'json' })
    const found = await probe.says(/"trafficUrl":".+?:(\d+)","operationsUrl":".+?:(\d+)"/)
    const [, PORT = '', ADMIN_PORT = ''] = found
    probe.child.kill('SIGKILL')
    await probe.exit
    const env = { PORT, ADMIN_PORT, LOG_LEVEL: 'debug', ...settings }
    const child = spawn(file, parameters, { env, stdio: ['ignore', stdout, 'ignore'] })
    closeSync(stdout)
    const exit = new Promise<number | null>((resolve) => child.once('exit', resolve))
    onTestFinished(() => {
      child.kill('SIGKILL')
    })
    const isReady = () => rawExchange(`http://127.0.0.1:${ADMIN_PORT}`, get('/readyz'))
    while (child.exitCode === null && (await isReady()).status !== 200) await pause(20)
    return { child, url: `http://127.0.0.1:${PORT}`, exit }
  }

  async function serves({ url }: { url: string }) {
    // Far more than the 64 KiB that a pipe takes.
    for (let count = 0; count < 200; count += 1) {
      const { status } = await rawExchange(url, get(`/v3/pairs?${'a'.repeat(1_000)}`))
      expect(status).toBe(200)
    }
  }

  async function servesAndEnds(started: Awaited<ReturnType<typeof startWithOutput>>) {
    await serves(started)
    started.child.kill('SIGTERM')
    expect(await started.exit).toBe(0)
  }

  test.each(['json', 'pretty'])('because the disk is full (%s) harms nobody', async (LOG_FORMAT) => {
    await servesAndEnds(await startWithOutput(openSync('/dev/full', 'w'), { LOG_FORMAT }))
  })

  test.each(['json', 'pretty'])('because its reader has gone (%s) harms nobody', async (LOG_FORMAT) => {
    const { readEnd, writeEnd } = openPipe()
    const started = await startWithOutput(writeEnd, { LOG_FORMAT })
    closeSync(readEnd)
    await servesAndEnds(started)
  })

  // A write to a pipe that is full waits for the reader, and with it would everything else.
  test.each(['json', 'pretty'])('because its reader stands still (%s) harms nobody', async (LOG_FORMAT) => {
    const { readEnd, writeEnd } = openPipe()
    onTestFinished(() => closeSync(readEnd))
    await servesAndEnds(await startWithOutput(writeEnd, { LOG_FORMAT }))
  })

  // As with Ctrl-S, or in a session whose other end sleeps. When script is gone, so is the terminal, which ends the program.
  test.each(['json', 'pretty'])('because its terminal stands still (%s) harms nobody', async (LOG_FORMAT) => {
    const { readEnd, writeEnd } = openPipe()
    onTestFinished(() => closeSync(readEnd))
    const inTerminal = ['-qfc', `exec '${process.execPath}' '${builtProgram}'`, '/dev/null']
    await serves(await startWithOutput(writeEnd, { LOG_FORMAT }, ['script', ...inTerminal]))
  })
})

test('an answer that the client no longer takes, written late, harms nobody', async () => {
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
