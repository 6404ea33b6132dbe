import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { levels } from '../support/observing/log-lines.ts'
import { idsOf, newFolder, opened, record, untilTrue, untilWritten } from './support.ts'

/** A file system of one megabyte, where this machine lets us have one. */
function smallDisk(): string | undefined {
  const folder = newFolder()
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder]).status !== 0) return undefined
  onTestFinished(() => void spawnSync('umount', ['--lazy', folder]))
  return folder
}

test('a disk that fills up costs no record once it has room again', async () => {
  const folder = smallDisk()
  // writer.test.ts makes a store fail.
  if (folder === undefined) return
  const first = await opened(folder)
  first.note(record(0))
  await untilWritten(first)
  const filler = join(folder, 'filler')
  spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=4k'], { stdio: 'ignore' })
  for (let number = 1; number < 5_000; number += 1) first.note(record(number))
  await untilTrue(() => !first.state.facts.isWriting, 'the disk to be full')
  expect(first.lines(levels.error)).toHaveLength(1)
  expect(JSON.stringify(first.lines(levels.error))).toContain('No space left on device')
  rmSync(filler)
  await untilTrue(
    () => first.state.facts.isWriting && first.state.facts.backlog === 0,
    'the store to be well',
  )
  await first.state.close()
  const { restored, lines } = await opened(folder)
  expect(idsOf(restored.records)).toHaveLength(5_000)
  expect(lines(levels.warn)).toEqual([])
  expect(readFileSync(join(folder, 'synced'), 'utf8')).toContain('5000')
}, 60_000)

test('a startup with a full disk is refused', async () => {
  const folder = smallDisk()
  if (folder === undefined) return
  writeFileSync(join(folder, 'filler'), '')
  spawnSync('dd', ['if=/dev/zero', `of=${join(folder, 'filler')}`, 'bs=4k'], { stdio: 'ignore' })
  await expect(opened(folder)).rejects.toThrow(/^STATE_DIRECTORY=.* cannot be used: /)
})
