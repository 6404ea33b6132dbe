import { spawn, spawnSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { pause } from '../support/gateways/between.ts'
import { builtProgram } from '../support/gateways/program.ts'
import { freePort } from '../support/machine/free-port.ts'

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`

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
  /** The program with this for its standard output, on ports that were free a moment ago. */
  async function startWithOutput(
    stdout: number,
    settings: Record<string, string> = {},
    [file, ...parameters]: [string, ...string[]] = [process.execPath, builtProgram],
  ) {
    const [PORT, ADMIN_PORT] = [String(await freePort()), String(await freePort())]
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

  test.each(['json', 'pretty'])('because the disk is full (%s) harms no request', async (LOG_FORMAT) => {
    await servesAndEnds(await startWithOutput(openSync('/dev/full', 'w'), { LOG_FORMAT }))
  })

  test.each(['json', 'pretty'])('because its reader has gone (%s) harms no request', async (LOG_FORMAT) => {
    const { readEnd, writeEnd } = openPipe()
    const started = await startWithOutput(writeEnd, { LOG_FORMAT })
    closeSync(readEnd)
    await servesAndEnds(started)
  })

  // A write to a pipe that is full waits for the reader, and with it would everything else.
  test.each(['json', 'pretty'])(
    'because its reader stands still (%s) harms no request',
    async (LOG_FORMAT) => {
      const { readEnd, writeEnd } = openPipe()
      onTestFinished(() => closeSync(readEnd))
      await servesAndEnds(await startWithOutput(writeEnd, { LOG_FORMAT }))
    },
  )

  // As with Ctrl-S, or in a session whose other end sleeps. When script is gone, so is the terminal, which ends the program.
  test.each(['json', 'pretty'])(
    'because its terminal stands still (%s) harms no request',
    async (LOG_FORMAT) => {
      const { readEnd, writeEnd } = openPipe()
      onTestFinished(() => closeSync(readEnd))
      const inTerminal = ['-qfc', `exec '${process.execPath}' '${builtProgram}'`, '/dev/null']
      await serves(await startWithOutput(writeEnd, { LOG_FORMAT }, ['script', ...inTerminal]))
    },
  )
})
