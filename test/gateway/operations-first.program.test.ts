import { execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { append, newFolder, noted, opened } from '../journal/disk-support.ts'
import { until } from '../support/gateways/between.ts'
import { startProgram } from '../support/gateways/program.ts'
import { freePort } from '../support/machine/free-port.ts'
import { listening } from '../support/machine/listening.ts'

const swapBaseUrl = 'https://swap.example'

async function folderOf(records: number): Promise<string> {
  const folder = newFolder()
  const filled = await opened(folder, { swapBaseUrl, clock: systemClock })
  const { journal } = filled
  const expiresAtMs = Date.now()
  for (let number = 0; number < records; number += 1) {
    append(filled, [noted(number, { expiresAtMs })])
    // More could not wait.
    if (number % 50_000 === 0)
      await until(() => journal.facts.waiting === 0, 'some to be written')
  }
  await journal.close()
  return folder
}

async function startOn(folder: string, settings: Record<string, string> = {}) {
  const adminPort = await freePort()
  const own = { SWAP_BASE_URL: swapBaseUrl, STATE_DIRECTORY: folder, LOG_FORMAT: 'json' }
  const program = startProgram([], {
    ...own,
    PORT: '0',
    ADMIN_PORT: String(adminPort),
    ...settings,
  })
  const ask = async (path: string, method = 'GET') => {
    const answer = await fetch(`http://127.0.0.1:${adminPort}${path}`, { method }).catch(
      () => undefined,
    )
    return answer && { status: answer.status, text: await answer.text() }
  }
  return { ...program, ask }
}

async function startHeld(settings: Record<string, string> = {}) {
  const folder = await folderOf(1)
  // A start waits here until something writes into it.
  const holdsStart = join(folder, 'journal-9.ndjson')
  execFileSync('mkfifo', [holdsStart])
  const program = await startOn(folder, settings)
  await until(() => existsSync(join(folder, 'lock')), 'the start to open the folder')
  return { ...program, goOn: () => writeFileSync(holdsStart, '') }
}

// As process 1 of a container it was dropped by the kernel, and the gateway became ready.
test('a signal while the folder is read stops the program once it is', async () => {
  const { says, child, exit, goOn } = await startHeld({ DRAIN_DELAY_MS: '600000' })
  child.kill('SIGTERM')
  await says(/"stopping: /)
  goOn()
  const { code, stdout } = await exit
  expect([code, stdout]).toEqual([0, expect.stringMatching(/"stopped"\}\n$/)])
  expect(stdout).not.toContain('trafficUrl')
})

test('a start that takes longer than DRAIN_TIMEOUT_MS does not hold up the end', async () => {
  const { port } = await listening(createServer(() => {}))
  const silent = {
    VALKEY_URL: `redis://127.0.0.1:${port}`,
    VALKEY_TIMEOUT_MS: '10000',
    DRAIN_TIMEOUT_MS: '0',
  }
  const { ask, child, exit } = await startOn(newFolder(), silent)
  await expect.poll(() => ask('/healthz')).toMatchObject({ status: 200 })
  child.kill('SIGTERM')
  const { code, stdout } = await exit
  expect([code, stdout]).toEqual([
    0,
    expect.stringMatching(/"stopping: [^\n]*\n.*"stopped"\}\n$/),
  ])
})

test('the operations listener answers before the folder is read: alive, not ready', async () => {
  const { ask, says, child, exit, goOn } = await startHeld()
  expect(await ask('/healthz?x=1')).toEqual({ status: 200, text: '{"status":"ok"}' })
  expect(await ask('/readyz')).toEqual({
    status: 503,
    text: '{"status":"not ready","degraded":false}',
  })
  expect(await ask('/healthz', 'HEAD')).toEqual({ status: 200, text: '' })
  const starts = { status: 503, text: expect.stringContaining('starts') }
  for (const path of ['/metrics', '/status', '/'])
    expect(await ask(path)).toMatchObject(starts)
  for (const path of ['/actions/faults', '/healthz'])
    expect(await ask(path, 'POST')).toMatchObject(starts)

  goOn()
  await says(/"trafficUrl"/)
  expect(await ask('/readyz')).toMatchObject({ status: 200 })
  expect(await ask('/metrics')).toMatchObject({ status: 200 })
  expect(await ask('/status')).toMatchObject({
    status: 200,
    text: expect.stringContaining('"restored":1,'),
  })
  child.kill('SIGTERM')
  expect((await exit).code).toBe(0)
}, 60_000)

test('/healthz answers while a large folder is read', async () => {
  const { ask, says } = await startOn(await folderOf(150_000))
  let isListening = false
  const listening = says(/"trafficUrl"/).then(() => {
    isListening = true
  })
  let answers = 0
  while (!isListening) {
    const ready = await ask('/readyz')
    if (ready?.status !== 503) continue
    expect(await ask('/healthz')).toMatchObject({ status: 200 })
    answers += 1
  }
  await listening
  expect(answers).toBeGreaterThan(3)
  expect(await ask('/readyz')).toMatchObject({ status: 200 })
  expect(await ask('/status')).toMatchObject({
    text: expect.stringContaining('"restored":150000,'),
  })
}, 120_000)
