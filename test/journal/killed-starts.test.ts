import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { until } from '../support/gateways/between.ts'
import { killPrograms, startProgram } from '../support/gateways/program.ts'
import { newFolder, noted, opened, textOf } from './disk-support.ts'

afterEach(killPrograms)

const swapBaseUrl = 'https://swap.example'

/** A folder with a hundred records, after a clean end. */
async function sound(): Promise<string> {
  const folder = newFolder()
  const { journal } = await opened(folder, { swapBaseUrl, clock: systemClock })
  const expiresAtMs = Date.now()
  for (let number = 0; number < 100; number += 1) journal.append(noted(number, { expiresAtMs }))
  await journal.close()
  return folder
}

function startOn(folder: string) {
  const own = { SWAP_BASE_URL: swapBaseUrl, STATE_DIRECTORY: folder, LOG_FORMAT: 'json' }
  return startProgram([], { ...own, PORT: '0', ADMIN_PORT: '0' })
}

async function expectWhole(folder: string, before: string): Promise<void> {
  const { memory, journal, lines } = await opened(folder, { swapBaseUrl, clock: systemClock })
  expect(memory.restored).toHaveLength(100)
  expect(memory.doubts).toBe(0)
  expect(journal.facts).toMatchObject({ skipped: 0, setAside: 0 })
  expect(lines()).toEqual([])
  expect(readdirSync(folder).sort()).toEqual(['journal-1.ndjson', 'lock'])
  expect(textOf(folder, 'journal-1.ndjson')).toBe(before)
}

test('kill -9 of ten starts in a row, each while it reads the folder, costs nothing', async () => {
  const folder = await sound()
  const before = textOf(folder, 'journal-1.ndjson')
  for (let start = 1; start <= 10; start += 1) {
    // A start waits here until something writes into it.
    const holdsStart = join(folder, 'journal-2.ndjson')
    execFileSync('mkfifo', [holdsStart])
    rmSync(join(folder, 'lock'), { force: true })
    const { child, exit } = startOn(folder)
    await until(() => existsSync(join(folder, 'lock')), 'the start to open the folder')
    child.kill('SIGKILL')
    await exit
    rmSync(holdsStart)
  }
  await expectWhole(folder, before)
}, 120_000)

test('kill -9 of a process that noted no quote costs nothing', async () => {
  const folder = await sound()
  const before = textOf(folder, 'journal-1.ndjson')
  for (let start = 1; start <= 3; start += 1) {
    const { child, exit, says } = startOn(folder)
    await says(/"trafficUrl"/)
    child.kill('SIGKILL')
    await exit
  }
  await expectWhole(folder, before)
}, 60_000)
