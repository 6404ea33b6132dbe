import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, openSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test, vi } from 'vitest'
import { get, RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { pause } from '../support/gateways/between.ts'
import { builtProgram } from '../support/gateways/program.ts'
import { freePort } from '../support/machine/free-port.ts'
import { newFolder } from '../support/machine/new-folder.ts'
import { linesOf } from '../support/observing/log-lines.ts'

/** A pipe by its two ends, which Node's own `stdio: 'pipe'` is not: that is a socket. */
function openPipe() {
  const path = join(newFolder(), 'pipe')
  if (spawnSync('mkfifo', [path]).status !== 0) throw new Error('mkfifo failed')
  const readEnd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  return { readEnd, writeEnd: openSync(path, constants.O_WRONLY) }
}

/** What stands in a pipe now. */
function readPipe(readEnd: number): Buffer {
  const chunk = Buffer.alloc(65_536)
  try {
    return chunk.subarray(0, readSync(readEnd, chunk))
  } catch {
    // Nothing stands in it.
    return chunk.subarray(0, 0)
  }
}

const inItself = [process.execPath, builtProgram]
/** When script is gone, so is the terminal, which ends the program. */
const inTerminal = [
  'script',
  '-qfc',
  `exec '${process.execPath}' '${builtProgram}'`,
  '/dev/null',
]

/** The program once it is ready, with this standard output. */
async function startedWith(
  stdout: number,
  settings: Record<string, string>,
  command = inItself,
) {
  const [PORT, ADMIN_PORT] = [String(await freePort()), String(await freePort())]
  const [file = '', ...parameters] = command
  const env = { PORT, ADMIN_PORT, LOG_FORMAT: 'json', ...settings }
  const child = spawn(file, parameters, { env, stdio: ['ignore', stdout, 'ignore'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  closeSync(stdout)
  const exit = new Promise((resolve) => child.once('exit', resolve))
  const isReady = () => rawExchange(`http://127.0.0.1:${ADMIN_PORT}`, get('/readyz'))
  while (child.exitCode === null && (await isReady()).status !== 200) await pause(20)
  return { child, exit, url: `http://127.0.0.1:${PORT}` }
}

/** What makes Node run these statements before the program. */
const imported = (statements: string) =>
  `--import data:text/javascript,${encodeURIComponent(statements)}`

/** Sends requests at once, whose access lines have these numbers. */
async function sendNumbered(url: string, from: number, count: number): Promise<void> {
  const requests = Array.from({ length: count }, (_, index) => {
    const close = index === count - 1 ? 'Connection: close\r\n' : ''
    return `GET /nowhere/${from + index} HTTP/1.1\r\nHost: g\r\n${close}\r\n`
  })
  const connection = new RawConnection(url, requests.join(''))
  await connection.closed()
  expect(connection.received.toString('latin1').match(/HTTP\/1\.1 404/g)).toHaveLength(
    count,
  )
}

const numbersIn = (text: string) =>
  linesOf(text)
    .filter(({ log }) => log === 'access')
    .map(({ path }) => Number(String(path).replace('/nowhere/', '')))

const lost = 'lines of this log were lost'
const countedAsLost = (text: string) =>
  linesOf(text)
    .filter(({ msg }) => msg.startsWith(lost))
    .reduce((sum, { lines }) => sum + Number(lines), 0)

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
    const settings = { LOG_LEVEL: 'debug', LOG_FORMAT }
    const { child, exit, url } = await startedWith(stdout, settings, command)
    if (gone) closeSync(readEnd)
    else onTestFinished(() => closeSync(readEnd))
    // Far more than the 64 KiB that a pipe takes.
    for (let count = 0; count < 200; count += 1) {
      const { status } = await rawExchange(url, get(`/v3/pairs?${'a'.repeat(1_000)}`))
      expect(status).toBe(200)
    }
    if (command === inTerminal) return
    child.kill('SIGTERM')
    expect(await exit).toBe(0)
  },
)

test.each([
  ['its disk is full', { full: true }],
  ['its reader stands still', {}],
])(
  'an unhandled error that cannot be logged because %s ends the program with 1',
  async (_why, { full }: { full?: boolean }) => {
    const { readEnd, writeEnd } = openPipe()
    onTestFinished(() => closeSync(readEnd))
    const { child, exit, url } = await startedWith(
      full ? openSync('/dev/full', 'w') : writeEnd,
      {
        ACCESS_LOG: 'on',
        NODE_OPTIONS: imported(
          "process.on('SIGUSR2', () => { throw new Error('boom') })",
        ),
      },
    )
    await sendNumbered(url, 0, 1_000)
    child.kill('SIGUSR2')
    expect(await exit).toBe(1)
  },
)

test('without a reader the first MiB of lines is kept, the others are counted, and the log goes on', async () => {
  const { readEnd, writeEnd } = openPipe()
  onTestFinished(() => closeSync(readEnd))
  const { child, exit, url } = await startedWith(writeEnd, { ACCESS_LOG: 'on' })
  for (let from = 0; from < 8_000; from += 500) await sendNumbered(url, from, 500)
  let text = ''
  const readMore = () => {
    text += readPipe(readEnd)
    return text
  }
  await vi.waitFor(() => expect(readMore()).toContain(lost), {
    timeout: 60_000,
    interval: 5,
  })
  // The pipe takes 64 KiB beside the buffer.
  expect(text.length).toBeGreaterThan(1_048_576)
  expect(text.length).toBeLessThan(1_048_576 + 65_536 + 2_000)
  const kept = numbersIn(text)
  await sendNumbered(url, 8_000, 10)
  child.kill('SIGTERM')
  while (child.exitCode === null) {
    readMore()
    await pause(5)
  }
  expect(await exit).toBe(0)
  readMore()
  expect(kept.slice(0, 3_000)).toEqual(Array.from({ length: 3_000 }, (_, n) => n))
  expect(kept).toEqual(kept.toSorted((one, other) => one - other))
  expect(numbersIn(text).slice(kept.length)).toEqual(
    Array.from({ length: 10 }, (_, n) => 8_000 + n),
  )
  // Every ten seconds there is a line that sums the answers up.
  const uncounted = 8_000 - kept.length - countedAsLost(text)
  expect(uncounted).toBeLessThanOrEqual(0)
  expect(uncounted).toBeGreaterThan(-50)
  expect(linesOf(text).at(-1)?.msg).toBe('stopped')
})

test('of 30,000 lines at once, all that do not fit are counted', async () => {
  const { readEnd, writeEnd } = openPipe()
  onTestFinished(() => closeSync(readEnd))
  const file = fileURLToPath(new URL('../../src/process/logger.ts', import.meta.url))
  const script = `
    const { createLogger } = await import(${JSON.stringify(file)})
    const logger = await createLogger({ level: 'info', format: 'json' })
    for (let count = 0; count < 30_000; count += 1) logger.info({ count }, 'line')
    process.send('written')
    setInterval(() => {}, 1_000)`
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', '--input-type=module', '--eval', script],
    { stdio: ['ignore', writeEnd, 'inherit', 'ipc'] },
  )
  onTestFinished(() => void child.kill('SIGKILL'))
  closeSync(writeEnd)
  await once(child, 'message')
  let text = ''
  await vi.waitFor(
    () => {
      text += readPipe(readEnd)
      expect(text).toContain(lost)
    },
    { timeout: 60_000, interval: 5 },
  )
  const kept = linesOf(text).flatMap(({ count }) => (count === undefined ? [] : [count]))
  expect(kept).toEqual([...kept.keys()])
  // The first report was lost too: it is tried when the first line has been written.
  expect(countedAsLost(text)).toBe(30_000 - kept.length + 1)
})

test('what waited for room on the disk is written at the end, with the count of what was lost', async () => {
  const path = join(newFolder(), 'log')
  const statement = `
    import fs from 'node:fs'
    const { writeSync } = fs
    let isFull = false
    fs.writeSync = (fd, ...rest) => {
      if (isFull && fd === 1) throw Object.assign(new Error('full'), { code: 'ENOSPC' })
      return writeSync(fd, ...rest)
    }
    process.on('SIGUSR2', () => { isFull = true })
    process.on('exit', () => { isFull = false })`
  const { child, exit, url } = await startedWith(openSync(path, 'w'), {
    ACCESS_LOG: 'on',
    NODE_OPTIONS: imported(statement),
  })
  child.kill('SIGUSR2')
  for (let from = 0; from < 8_000; from += 500) await sendNumbered(url, from, 500)
  child.kill('SIGTERM')
  expect(await exit).toBe(0)
  const text = readFileSync(path, 'utf8')
  const kept = numbersIn(text)
  expect(kept.slice(0, 3_000)).toEqual(Array.from({ length: 3_000 }, (_, n) => n))
  expect(linesOf(text).at(-1)?.msg).toContain(lost)
  expect(countedAsLost(text)).toBeGreaterThanOrEqual(8_000 - kept.length)
})
