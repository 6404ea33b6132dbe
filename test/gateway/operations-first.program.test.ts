import { execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { newFolder, noted, opened } from '../journal/disk-support.ts'
import { until } from '../support/gateways/between.ts'
import { startProgram } from '../support/gateways/program.ts'
import { freePort } from '../support/machine/free-port.ts'

const swapBaseUrl = 'https://swap.example'

async function folderOf(records: number): Promise<string> {
  const folder = newFolder()
  const { journal } = await opened(folder, { swapBaseUrl, clock: systemClock })
  const expiresAtMs = Date.now()
  for (let number = 0; number < records; number += 1) {
    journal.append(noted(number, { expiresAtMs }))
    // More could not wait.
    if (number % 50_000 === 0) await until(() => journal.facts.waiting === 0, 'some to be written')
  }
  await journal.close()
  return folder
}

async function startOn(folder: string) {
  const adminPort = await freePort()
  const own = { SWAP_BASE_URL: swapBaseUrl, STATE_DIRECTORY: folder, LOG_FORMAT: 'json' }
  const program = startProgram([], { ...own, PORT: '0', ADMIN_PORT: String(adminPort) })
  const ask = async (path: string, method = 'GET') => {
    const answer = await fetch(`http://127.0.0.1:${adminPort}${path}`, { method }).catch(() => undefined)
    return answer && { status: answer.status, text: await answer.text() }
  }
  return { ...program, ask }
}

test('the operations listener answers before the folder is read: alive, not ready', async () => {
  const folder = await folderOf(1)
  // A start waits here until something writes into it.
  const holdsStart = join(folder, 'journal-9.ndjson')
  execFileSync('mkfifo', [holdsStart])
  const { ask, says, child, exit } = await startOn(folder)
  await until(() => existsSync(join(folder, 'lock')), 'the start to open the folder')

  expect(await ask('/healthz?x=1')).toEqual({ status: 200, text: '{"status":"ok"}' })
  expect(await ask('/readyz')).toEqual({ status: 503, text: '{"status":"not ready","degraded":false}' })
  expect(await ask('/healthz', 'HEAD')).toEqual({ status: 200, text: '' })
  for (const [path, method] of [
    ['/metrics'],
    ['/status'],
    ['/'],
    ['/actions/faults', 'POST'],
    ['/healthz', 'POST'],
  ])
    expect(await ask(path ?? '', method)).toMatchObject({
      status: 503,
      text: expect.stringContaining('starts'),
    })

  writeFileSync(holdsStart, '')
  await says(/"trafficUrl"/)
  expect(await ask('/readyz')).toMatchObject({ status: 200 })
  expect(await ask('/metrics')).toMatchObject({
    status: 200,
    text: expect.stringContaining('quotegate_journal_restored_records 1'),
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
  expect(await ask('/metrics')).toMatchObject({
    text: expect.stringContaining('quotegate_journal_restored_records 150000'),
  })
}, 120_000)
