import { type ChildProcess, execFileSync } from 'node:child_process'
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import { afterEach, expect, test } from 'vitest'
import { keyOf } from '../../src/state/record-codec.ts'
import { killPrograms, startProgram } from '../support/gateways/program.ts'
import { levels } from '../support/observing/log-lines.ts'
import { newFolder, opened, record, untilTrue } from './support.ts'

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

  const { child, exit } = startOn(folder)
  await untilLinksGo(folder)
  child.kill('SIGKILL')
  await exit

  const { restored, state, lines } = await opened(folder, { swapBaseUrl })
  expect(restored.records).toHaveLength(100)
  expect(state.facts).toMatchObject({ missing: 0, setAside: 0 })
  expect(lines(levels.warn)).toEqual([])
}, 60_000)

test('kill -9 of ten startups in a row, each while it opens the store, loses no record', async () => {
  const folder = await sound(100)
  // A start copies what it cannot link, and waits here until something writes into it.
  const holdsStarts = join(folder, 'store', '999999.fifo')
  execFileSync('mkfifo', [holdsStarts])
  const kept = join(folder, 'opening.part')
  for (let start = 1; start <= 10; start += 1) {
    const { child, exit } = startOn(folder)
    await untilTrue(() => existsSync(kept), 'the start to open the store')
    child.kill('SIGKILL')
    await exit
    rmSync(kept, { recursive: true })
  }
  rmSync(holdsStarts)

  const { restored, state, lines } = await opened(folder, { swapBaseUrl })
  expect(restored.records).toHaveLength(100)
  expect(state.facts).toMatchObject({ missing: 0, setAside: 0 })
  expect(lines(levels.warn)).toEqual([])
}, 120_000)

test.runIf(process.platform === 'linux')(
  'kill -9 of what a startup tries the store with loses no record',
  async () => {
    const folder = await sound(20_000)
    asIfEndedWithin(folder)
    const { child, says, exit } = startOn(folder)
    await killChild(child)
    await says(/"trafficUrl"/)
    child.kill('SIGTERM')
    await exit
    const { restored, state } = await opened(folder, { swapBaseUrl })
    expect(restored.records).toHaveLength(20_000)
    expect(state.facts).toMatchObject({ missing: 0, setAside: 0 })
  },
  60_000,
)

test.runIf(process.platform === 'linux')(
  'kill -9 of what repairs a damaged store refuses the startup, and the next one begins again',
  async () => {
    const folder = await sound(20_000)
    rmSync(join(folder, 'store', 'CURRENT'))
    const { child, exit } = startOn(folder)
    await killChild(child)
    const { code, stderr } = await exit
    expect(code).toBe(1)
    expect(stderr).toContain('its repair was killed: start again')
    expect((await opened(folder, { swapBaseUrl })).restored.records).toHaveLength(20_000)
  },
  60_000,
)

test('a store at which LevelDB ends the process is given up unread by the next start, and kept', async () => {
  const folder = await sound(100)
  await putKeysOutOfOrder(join(folder, 'store'))
  asIfEndedWithin(folder)

  const { restored, state, lines } = await opened(folder, { swapBaseUrl })
  expect(restored.records).toEqual([])
  expect(state.facts).toMatchObject({ records: 0, missing: 100, setAside: 1 })
  expect(lines(levels.error)).toEqual([expect.objectContaining({ missing: 100, restored: 0 })])
  const [aside = ''] = readdirSync(folder).filter((name) => name.startsWith('damaged-'))
  expect(readdirSync(join(folder, aside, 'opening'))).toContain('CURRENT')
  await state.close()
  expect((await opened(folder, { swapBaseUrl })).state.facts).toMatchObject({ missing: 0, setAside: 1 })
})

test('where LevelDB ends the process that repairs a damaged store, the start reads what it can without', async () => {
  const folder = await sound(3_000)
  // A single table is not compacted, and repaired only if a part of it cannot be read.
  await putKeysOutOfOrder(join(folder, 'store'), { tables: 1, unreadableFrom: 0.9 })
  const { restored, state } = await opened(folder, { swapBaseUrl })
  expect(restored.records.length).toBeGreaterThan(2_000)
  expect(state.facts).toMatchObject({ missing: 3_000 - restored.records.length, setAside: 1 })
})

test('with damaged tables the program starts at the second try at the latest', async () => {
  const folder = await sound(20_000)
  await putKeysOutOfOrder(join(folder, 'store'))
  let starts = 0
  for (let isListening = false; !isListening; ) {
    starts += 1
    const { child, exit, says } = startOn(folder)
    isListening = await says(/"trafficUrl"/).then(
      () => true,
      () => false,
    )
    if (isListening) child.kill('SIGTERM')
    await exit
    expect(starts).toBeLessThanOrEqual(2)
  }
}, 120_000)

function startOn(folder: string) {
  const own = { SWAP_BASE_URL: swapBaseUrl, STATE_DIRECTORY: folder, LOG_FORMAT: 'json' }
  return startProgram([], { ...own, PORT: '0', ADMIN_PORT: '0' })
}

/** A folder with so many records, after a clean end. */
async function sound(records: number): Promise<string> {
  const folder = newFolder()
  const { note, state } = await opened(folder, { swapBaseUrl })
  for (let number = 0; number < records; number += 1) note(record(number))
  await state.close()
  return folder
}

/** As a start leaves the folder that ended while it opened the store. */
function asIfEndedWithin(folder: string): void {
  cpSync(join(folder, 'store'), join(folder, 'opening'), { recursive: true })
}

async function killChild({ pid }: ChildProcess): Promise<void> {
  for (let killed = false; !killed; await new Promise(setImmediate)) {
    for (const child of childrenOf(pid)) killed = process.kill(child, 'SIGKILL')
  }
}

function childrenOf(pid = 0): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return children.split(' ').filter(Boolean).map(Number)
}

/**
 * Writes the store again, in tables of the same keys, so that the next start compacts them. In each, the first sixteen keys
 * come to stand behind all others: LevelDB asserts that this cannot be.
 */
async function putKeysOutOfOrder(store: string, { tables = 3, unreadableFrom = 1 } = {}): Promise<void> {
  const options = { compression: false, writeBufferSize: 2 ** 26 }
  const before = new ClassicLevel(store, options)
  const entries = await before.iterator().all()
  await before.close()
  rmSync(store, { recursive: true })
  // What one writes to its log, the next one makes a table of.
  for (let written = 0; written <= tables; written += 1) {
    const level = new ClassicLevel(store, options)
    await level.batch(entries.map(([key, value]) => ({ type: 'put', key, value })))
    await level.close()
  }
  for (const name of readdirSync(store).filter((file) => file.endsWith('.ldb'))) {
    const bytes = readFileSync(join(store, name))
    bytes.write('z', bytes.indexOf(keyOf(1)), 'latin1')
    const from = Math.floor(bytes.length * unreadableFrom)
    bytes.subarray(from, from + 200).fill(0xff)
    writeFileSync(join(store, name), bytes)
  }
}

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
