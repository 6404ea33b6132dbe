import { spawn, spawnSync } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { get, rawExchange } from '../support/clients/raw-connection.ts'
import { pause } from '../support/gateways/between.ts'
import { builtProgram } from '../support/gateways/program.ts'
import { freePort } from '../support/machine/free-port.ts'
import { newFolder } from '../support/machine/new-folder.ts'

/** A pipe by its two ends, which Node's own `stdio: 'pipe'` is not: that is a socket. */
function openPipe() {
  const path = join(newFolder(), 'pipe')
  if (spawnSync('mkfifo', [path]).status !== 0) throw new Error('mkfifo failed')
  const readEnd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  return { readEnd, writeEnd: openSync(path, constants.O_WRONLY) }
}

const inItself = [process.execPath, builtProgram]
/** When script is gone, so is the terminal, which ends the program. */
const inTerminal = [
  'script',
  '-qfc',
  `exec '${process.execPath}' '${builtProgram}'`,
  '/dev/null',
]

// A write to a pipe that is full waits for the reader, and with it would everything else. So would one to a terminal, after
// Ctrl-S, or in a session whose other end sleeps.
test.each([
  ['its disk is full', 'json', inItself, { full: true }],
  ['its reader has gone', 'json', inItself, { gone: true }],
  ['its reader stands still', 'json', inItself, {}],
  ['its reader stands still', 'pretty', inItself, {}],
  ['its terminal stands still', 'pretty', inTerminal, {}],
])(
  'a log that cannot be written because %s (%s) harms no request',
  async (_why, LOG_FORMAT, command, {
    full,
    gone,
  }: { full?: boolean; gone?: boolean }) => {
    const { readEnd, writeEnd } = openPipe()
    const stdout = full ? openSync('/dev/full', 'w') : writeEnd
    const [PORT, ADMIN_PORT] = [String(await freePort()), String(await freePort())]
    const [file = '', ...parameters] = command
    const env = { PORT, ADMIN_PORT, LOG_LEVEL: 'debug', LOG_FORMAT }
    const child = spawn(file, parameters, { env, stdio: ['ignore', stdout, 'ignore'] })
    onTestFinished(() => void child.kill('SIGKILL'))
    closeSync(stdout)
    const exit = new Promise((resolve) => child.once('exit', resolve))
    const isReady = () => rawExchange(`http://127.0.0.1:${ADMIN_PORT}`, get('/readyz'))
    while (child.exitCode === null && (await isReady()).status !== 200) await pause(20)
    if (gone) closeSync(readEnd)
    else onTestFinished(() => closeSync(readEnd))
    // Far more than the 64 KiB that a pipe takes.
    for (let count = 0; count < 200; count += 1) {
      const { status } = await rawExchange(
        `http://127.0.0.1:${PORT}`,
        get(`/v3/pairs?${'a'.repeat(1_000)}`),
      )
      expect(status).toBe(200)
    }
    if (command === inTerminal) return
    child.kill('SIGTERM')
    expect(await exit).toBe(0)
  },
)
