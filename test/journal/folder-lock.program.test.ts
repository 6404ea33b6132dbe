import { existsSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { StateError } from '../../src/process/errors.ts'
import { tryFolder } from '../../src/process/folders.ts'
import { pause } from '../support/gateways/between.ts'
import { append, idsOf, newFolder, noted, opened, startOn } from './disk-support.ts'

const inUse = (folder: string) =>
  `STATE_DIRECTORY=${folder} is in use by another process or gateway: give each its own folder`

/** A socket of which no process listens, as a killed one leaves it. */
async function leaveLock(folder: string): Promise<void> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(join(folder, 'closing'), resolve))
  renameSync(join(folder, 'closing'), join(folder, 'lock'))
  await new Promise((resolve) => server.close(resolve))
}

test('of many that start together on the lock of a killed one, one opens the folder, ten times', async () => {
  for (let round = 0; round < 10; round += 1) {
    const folder = newFolder()
    await leaveLock(folder)
    const all = await Promise.allSettled(Array.from({ length: 12 }, () => opened(folder)))
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const each of all)
      if (each.status === 'rejected') expect(each.reason.message).toBe(inUse(folder))
    expect(readdirSync(folder)).toEqual(['lock'])
  }
})

test('a second one is refused, and disturbs nothing', async () => {
  const folder = newFolder()
  const first = await opened(folder)
  append(first, [noted(1)])
  for (const options of [{}, { swapBaseUrl: 'https://other.example' }]) {
    const refused = opened(folder, options)
    await expect(refused).rejects.toThrow(StateError)
    await expect(refused).rejects.toThrow(inUse(folder))
  }
  append(first, [noted(2)])
  await first.journal.close()
  const { memory, lines } = await opened(folder)
  expect(idsOf(memory.restored)).toEqual(['quote-1', 'quote-2'])
  expect(lines()).toEqual([])
})

test.skipIf(process.platform === 'win32')(
  'a process that is stopped still has the folder, until it ends',
  async () => {
    const folder = newFolder()
    const { child, ready, end } = startOn(folder, {
      SWAP_BASE_URL: 'https://swap.example',
    })
    await ready()
    child.kill('SIGSTOP')
    await expect(opened(folder)).rejects.toThrow(inUse(folder))
    await end('SIGKILL')
    await opened(folder)
  },
)

test('a path below a file refuses the start', async () => {
  const file = join(newFolder(), 'a-file')
  writeFileSync(file, '')
  const refused = opened(join(file, 'below'))
  await expect(refused).rejects.toThrow(StateError)
  await expect(refused).rejects.toThrow(
    `STATE_DIRECTORY=${join(file, 'below')} cannot be used: ENOTDIR`,
  )
})

test('where a file is called lock, the folder is opened', async () => {
  const folder = newFolder()
  writeFileSync(join(folder, 'lock'), 'x')
  const { journal } = await opened(folder)
  await expect(opened(folder)).rejects.toThrow('in use')
  await journal.close()
  expect(existsSync(join(folder, 'lock'))).toBe(false)
})

describe.runIf(process.platform === 'linux')('a start', () => {
  test('removes a socket that another left before it was the lock', async () => {
    const folder = newFolder()
    writeFileSync(join(folder, 'lock-0123abcd'), '')
    await opened(folder)
    expect(readdirSync(folder)).toEqual(['lock'])
  })

  test('waits for another that is about to take the folder', async () => {
    const folder = newFolder()
    const { dev, ino } = statSync(folder)
    const guard = createServer().listen(`\0quotegate-${dev}-${ino}`)
    onTestFinished(() => void guard.close())
    let isOpen = false
    const opening = opened(folder).then(() => {
      isOpen = true
    })
    await pause(200)
    expect(isOpen).toBe(false)
    guard.close()
    await opening
  })
})

test.skipIf(process.platform === 'win32')(
  'a folder whose path is too long for a socket stops the start',
  async () => {
    const long = join(newFolder(), 'x'.repeat(90))
    await expect(opened(long)).rejects.toThrow(StateError)
    await expect(opened(long)).rejects.toThrow(
      'is too long: at most 86 bytes, because its lock is a socket',
    )
    expect(tryFolder(long)).toMatch(/at most \d+ bytes/)
    const folder = newFolder()
    const asLongAsAllowed = join(folder, 'x'.repeat(86 - folder.length - 1))
    await opened(asLongAsAllowed)
    await expect(opened(asLongAsAllowed)).rejects.toThrow('in use')
  },
)
