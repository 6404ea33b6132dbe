import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { useFolder } from '../../src/state/folder.ts'
import { killPrograms, startProgram } from '../support/gateways/program.ts'
import { levels } from '../support/observing/log-lines.ts'
import { flipByte, newFolder, opened, record } from './support.ts'

afterEach(killPrograms)

const strangers = 3_000
const swapBaseUrl = 'https://swap.example'

test("kill -9 while a startup removes its links to the store's files loses no record", async () => {
  const folder = newFolder()
  const first = await opened(folder, { swapBaseUrl })
  for (let number = 0; number < 100; number += 1) first.note(record(number))
  await first.state.close()
  // LevelDB leaves files alone that it does not know. So many take long enough to remove for a kill to come between.
  for (let number = 0; number < strangers; number += 1)
    writeFileSync(join(folder, 'store', `a-${number}`), '')

  const { child, exit } = startProgram([], {
    SWAP_BASE_URL: swapBaseUrl,
    STATE_DIRECTORY: folder,
    PORT: '0',
    ADMIN_PORT: '0',
  })
  await untilLinksGo(folder)
  child.kill('SIGKILL')
  await exit

  const { restored, state, lines } = await opened(folder, { swapBaseUrl })
  expect(restored.records).toHaveLength(100)
  expect(state.facts).toMatchObject({ missing: 0, setAside: 0 })
  expect(lines(levels.warn)).toEqual([])
}, 60_000)

test('a store that ends the process at every start is given up unread, and kept', async () => {
  const folder = newFolder()
  const first = await opened(folder, { swapBaseUrl })
  for (let number = 0; number < 100; number += 1) first.note(record(number))
  await first.state.close()
  // As four starts leave it that ended within LevelDB.
  const files = await useFolder(folder)
  for (let start = 1; start <= 4; start += 1) await files.countTry()

  const { restored, state, lines } = await opened(folder, { swapBaseUrl })
  expect(restored.records).toEqual([])
  expect(state.facts).toMatchObject({ records: 0, missing: 100, setAside: 1 })
  expect(lines(levels.error)).toEqual([expect.objectContaining({ missing: 100, restored: 0 })])
  const [aside = ''] = readdirSync(folder).filter((name) => name.startsWith('damaged-'))
  expect(readdirSync(join(folder, aside, 'opening'))).toContain('CURRENT')
  await state.close()
  expect((await opened(folder, { swapBaseUrl })).state.facts).toMatchObject({ missing: 0, setAside: 1 })
})

test('a start that is refused for another reason does not count against the store', async () => {
  const folder = newFolder()
  const first = await opened(folder, { swapBaseUrl })
  first.note(record(1))
  await first.state.close()
  function noTime(): number {
    throw new Error('no time')
  }
  for (let start = 1; start <= 6; start += 1)
    await expect(opened(folder, { swapBaseUrl, clock: { ...systemClock, nowMs: noTime } })).rejects.toThrow(
      'no time',
    )
  expect((await opened(folder, { swapBaseUrl })).restored.records).toHaveLength(1)
})

test('with a damaged table the program starts at the fifth try at the latest', async () => {
  const folder = newFolder()
  const first = await opened(folder, { swapBaseUrl })
  for (let number = 0; number < 1_500; number += 1) first.note(record(number))
  await first.state.close()
  await (await opened(folder, { swapBaseUrl })).state.close()
  for (const at of [0.3, 0.4, 0.5]) flipByte(join(folder, 'store'), /\.ldb$/, at)
  let starts = 0
  for (let isListening = false; !isListening; ) {
    starts += 1
    const { child, exit, says } = startProgram([], {
      SWAP_BASE_URL: swapBaseUrl,
      STATE_DIRECTORY: folder,
      PORT: '0',
      ADMIN_PORT: '0',
      LOG_FORMAT: 'json',
    })
    isListening = await says(/"trafficUrl"/).then(
      () => true,
      () => false,
    )
    if (isListening) child.kill('SIGTERM')
    await exit
    expect(starts).toBeLessThanOrEqual(5)
  }
}, 120_000)

/** Resolves when the links were complete, and some of them are gone. */
async function untilLinksGo(folder: string): Promise<void> {
  let wereComplete = false
  const deadlineMs = performance.now() + 30_000
  while (performance.now() < deadlineMs) {
    const names = readdirSync(folder)
    const links = ['opening', 'opening.part']
      .filter((name) => names.includes(name))
      .map((name) => linksIn(folder, name))
    wereComplete ||= names.includes('opening')
    // Busy on purpose: the moment is short.
    if (wereComplete && Math.max(0, ...links) < strangers) return
    await new Promise(setImmediate)
  }
  throw new Error('no start removed its links')
}

function linksIn(folder: string, name: string): number {
  try {
    return readdirSync(join(folder, name)).filter((file) => file.startsWith('a-')).length
  } catch {
    return 0
  }
}
