import { spawn } from 'node:child_process'
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { StateError } from '../../src/process/errors.ts'
import { tryFolder } from '../../src/process/folders.ts'
import { pause } from '../support/gateways/between.ts'
import { killPrograms, watchProgram } from '../support/gateways/program.ts'
import { environment } from '../support/machine/environment.ts'
import { idsOf, newFolder, noted, opened } from './disk-support.ts'

afterEach(killPrograms)

const script = fileURLToPath(new URL('disk-process.ts', import.meta.url))

function start(folder: string) {
  const child = spawn(process.execPath, ['--import', 'tsx', script, folder], {
    env: { PATH: environment().PATH },
  })
  const program = watchProgram(child)
  const told = program.says(/open\n|STATE_DIRECTORY=.*\n/).then(([said]) => said.trim())
  return { ...program, told, tell: (line: string) => child.stdin.write(`${line}\n`) }
}

const inUse = (folder: string) =>
  `STATE_DIRECTORY=${folder} is in use by another process: give each process its own folder`

test('of two processes that start together on the lock of a killed one, one opens the folder, 15 times', async () => {
  const folder = newFolder()
  for (let round = 0; round < 15; round += 1) {
    const both = [start(folder), start(folder)]
    await Promise.all(both.map(({ says }) => says(/ready/)))
    for (const { tell } of both) tell('go')
    const told = await Promise.all(both.map((one) => one.told))
    expect(told.sort()).toEqual([inUse(folder), 'open'].sort())
    for (const { child, exit } of both) {
      child.kill('SIGKILL')
      await exit
    }
    expect(readdirSync(folder)).toEqual(['lock'])
  }
}, 240_000)

test('of many that start together in one process, one opens the folder', async () => {
  const folder = newFolder()
  const all = await Promise.allSettled(Array.from({ length: 12 }, () => opened(folder)))
  expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  for (const each of all) if (each.status === 'rejected') expect(each.reason.message).toBe(inUse(folder))
})

test('a second process is refused, and disturbs nothing', async () => {
  const folder = newFolder()
  const first = await opened(folder)
  first.journal.append(noted(1))
  for (const options of [{}, { swapBaseUrl: 'https://other.example' }]) {
    const refused = opened(folder, options)
    await expect(refused).rejects.toThrow(StateError)
    await expect(refused).rejects.toThrow(inUse(folder))
  }
  first.journal.append(noted(2))
  await first.journal.close()
  const { memory, lines } = await opened(folder)
  expect(idsOf(memory.restored)).toEqual(['quote-1', 'quote-2'])
  expect(lines()).toEqual([])
})

test.skipIf(process.platform === 'win32')('one that is stopped still has the folder', async () => {
  const folder = newFolder()
  const first = start(folder)
  await first.says(/ready/)
  first.tell('go')
  expect(await first.told).toBe('open')
  first.child.kill('SIGSTOP')
  await expect(opened(folder)).rejects.toThrow(inUse(folder))
  first.child.kill('SIGKILL')
  await first.exit
  await opened(folder)
})

test('a start that is refused or fails gives the folder back', async () => {
  const folder = newFolder()
  await opened(folder)
  await expect(opened(folder)).rejects.toThrow('in use')
  const file = join(newFolder(), 'a-file')
  writeFileSync(file, '')
  const refused = opened(join(file, 'below'))
  await expect(refused).rejects.toThrow(StateError)
  await expect(refused).rejects.toThrow(`STATE_DIRECTORY=${join(file, 'below')} cannot be used: ENOTDIR`)
})

test.each([
  ['a file', (path: string) => writeFileSync(path, 'x')],
  ['nothing', () => {}],
])('where %s is called lock, the folder is opened', async (_, make) => {
  const folder = newFolder()
  make(join(folder, 'lock'))
  const { journal } = await opened(folder)
  await expect(opened(folder)).rejects.toThrow('in use')
  await journal.close()
  expect(existsSync(join(folder, 'lock'))).toBe(false)
})

test.runIf(process.platform === 'linux')(
  'a socket that a start left before it was the lock is removed',
  async () => {
    const folder = newFolder()
    writeFileSync(join(folder, 'lock-0123abcd'), '')
    await opened(folder)
    expect(readdirSync(folder)).toEqual(['lock'])
  },
)

describe.skipIf(process.platform === 'win32')('a folder whose path is too long for a socket', () => {
  const long = () => join(newFolder(), 'x'.repeat(90))

  test('stops the start with a line that says so', async () => {
    const folder = long()
    await expect(opened(folder)).rejects.toThrow(
      new StateError(`STATE_DIRECTORY=${folder} is too long: at most 86 bytes, because its lock is a socket`),
    )
  })

  test('does not pass --check-config', () => {
    expect(tryFolder(long())).toMatch(/at most \d+ bytes/)
  })

  test('but one as long as is allowed works', async () => {
    const folder = newFolder()
    const name = 'x'.repeat(100 - '/lock-12345678'.length - folder.length - 1)
    const { journal } = await opened(join(folder, name))
    await expect(opened(join(folder, name))).rejects.toThrow('in use')
    await journal.close()
  })
})

test.runIf(process.platform === 'linux')(
  'a start waits for another that is about to take the folder',
  async () => {
    const folder = newFolder()
    const guard = createServer().listen(guardName(folder))
    onTestFinished(() => void guard.close())
    let isOpen = false
    const opening = opened(folder).then(() => {
      isOpen = true
    })
    await pause(200)
    expect(isOpen).toBe(false)
    guard.close()
    await opening
  },
)

function guardName(folder: string): string {
  const { dev, ino } = statSync(folder)
  return `\0quotegate-${dev}-${ino}`
}
