import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { killPrograms, startProgram } from '../support/gateways/program.ts'
import { levels } from '../support/observing/log-lines.ts'
import { newFolder, opened, record } from './support.ts'

afterEach(killPrograms)

const strangers = 3_000
const swapBaseUrl = 'https://swap.example'

test('kill -9 while a start removes its links to the files of the store costs no record', async () => {
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
