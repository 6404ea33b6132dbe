import { existsSync, mkdirSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { StateError } from '../../src/process/state-error.ts'
import { useFolder } from '../../src/state/folder.ts'
import { loadLevel } from '../../src/state/level-state.ts'
import { levels } from '../support/observing/log-lines.ts'
import { idsOf, newFolder, opened, record } from './support.ts'

/** A folder with one record, closed. */
async function used(options = {}): Promise<string> {
  const folder = newFolder()
  const { note, state } = await opened(folder, options)
  note(record(1))
  await state.close()
  return folder
}

test('a second process on the same folder is refused, and disturbs nothing', async () => {
  const folder = newFolder()
  const first = await opened(folder)
  const other = { swapBaseUrl: 'https://other.example' }
  for (const options of [{}, other]) {
    const refused = opened(folder, options)
    await expect(refused).rejects.toThrow(StateError)
    await expect(refused).rejects.toThrow(
      `STATE_DIRECTORY=${folder} is in use by another process: give each process its own folder`,
    )
  }
  first.note(record(1))
  await first.state.close()
  expect(idsOf((await opened(folder)).restored.records)).toEqual(['quote-1'])
})

test('a refused startup releases the folder', async () => {
  const folder = await used()
  const about = { layout: 3 }
  const files = await useFolder(folder)
  const ours = await files.readAbout()
  await files.writeAbout({ ...about, swapBaseUrl: '', salt: '' })
  await expect(opened(folder)).rejects.toThrow('newer version')
  if (typeof ours === 'object') await files.writeAbout(ours)
  expect((await opened(folder)).restored.records).toHaveLength(1)
})

test('a startup that fails after the store was read releases the store too', async () => {
  const folder = await used()
  const inTheWay = join(folder, 'synced.part')
  mkdirSync(inTheWay)
  await expect(opened(folder)).rejects.toThrow('cannot be used: EISDIR')
  rmdirSync(inTheWay)
  expect((await opened(folder)).restored.records).toHaveLength(1)
})

test('after a downgrade, a folder of a newer layout is refused and stays as it is', async () => {
  const folder = await used()
  const files = await useFolder(folder)
  await files.writeAbout({ layout: 3, swapBaseUrl: 'https://swap.example', salt: 's' })
  const before = readdirSync(folder)
  const refused = opened(folder)
  await expect(refused).rejects.toThrow(StateError)
  await expect(refused).rejects.toThrow(
    `STATE_DIRECTORY=${folder} was written by a newer version of quotegate (layout 3, this one reads 2): start that version, or choose another folder`,
  )
  expect(readdirSync(folder)).toEqual(before)
})

test('after an upgrade, a folder of layout 1 is set aside with a line', async () => {
  const folder = await used()
  await (await useFolder(folder)).writeAbout({ layout: 1, swapBaseUrl: 'https://swap.example', salt: 's' })
  const { restored, lines, note, state } = await opened(folder)
  expect(restored).toMatchObject({ records: [], isClean: true })
  const [line] = lines(levels.warn)
  expect(line?.msg).toBe(
    'STATE_DIRECTORY is of an older version that this one cannot read: it is set aside, and the ledger starts empty',
  )
  expect(existsSync(join(folder, String(line?.setAsideAs), 'store'))).toBe(true)
  note(record(2))
  await state.close()
  expect(idsOf((await opened(folder)).restored.records)).toEqual(['quote-2'])
})

test('a folder that cannot be made or written is refused', async () => {
  const file = join(newFolder(), 'a-file')
  writeFileSync(file, '')
  const refused = opened(join(file, 'below'))
  await expect(refused).rejects.toThrow(StateError)
  await expect(refused).rejects.toThrow(`STATE_DIRECTORY=${join(file, 'below')} cannot be used: ENOTDIR`)
})

test('if the package has no build for the machine, a log line says so', async () => {
  const failing = () => Promise.reject(new Error('No native build was found'))
  await expect(loadLevel(failing)).rejects.toThrow(StateError)
  await expect(loadLevel(failing)).rejects.toThrow(
    /^STATE_DIRECTORY needs the package classic-level, .* no build/,
  )
})

test.each([
  [
    'another SWAP_BASE_URL',
    {},
    { swapBaseUrl: 'https://other.example' },
    'is of another SWAP_BASE_URL (https://swap.example)',
  ],
  ['no shared store', { salt: 'one' }, {}, 'was written with another salt, which VALKEY_URL decides'],
  ['a shared store', {}, { salt: 'one' }, 'was written with another salt, which VALKEY_URL decides'],
  [
    'another shared store',
    { salt: 'one' },
    { salt: 'two' },
    'was written with another salt, which VALKEY_URL decides',
  ],
])('a folder is set aside with a line under %s', async (_, before, now, why) => {
  const folder = await used(before)
  const { restored, state, lines } = await opened(folder, now)
  expect(restored.records).toEqual([])
  expect(state.facts.setAside).toBe(1)
  const [line] = lines(levels.warn)
  expect(line?.msg).toBe(`STATE_DIRECTORY ${why}: it is set aside, and the ledger starts empty`)
  expect(line?.setAsideAs).toMatch(/^set-aside-\d{4}-/)
  expect(existsSync(join(folder, String(line?.setAsideAs), 'store'))).toBe(true)
})
