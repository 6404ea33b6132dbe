import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { placeFiles } from '../../scripts/build/place.mjs'
import { newFolder } from '../support/machine/new-folder.ts'

const built = new Map([
  ['main.js', 'main'],
  ['chunk-1.js', 'chunk'],
  ['console/index.html', 'page'],
])

function folderWith(files: Record<string, string> = {}): string {
  const folder = newFolder()
  for (const [name, text] of Object.entries(files))
    writeFileSync(join(folder, name), text)
  return folder
}

const namesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()

test('a build leaves its own files, and main.js has the time at which it began', () => {
  const folder = folderWith({ 'main.js': 'old', 'chunk-0.js': 'old' })
  placeFiles(folder, built, { last: 'main.js', startedAt: new Date(1_000_000) })
  expect(namesIn(folder)).toEqual([
    'chunk-1.js',
    'console',
    'console/index.html',
    'main.js',
  ])
  expect(readFileSync(join(folder, 'main.js'), 'utf8')).toBe('main')
  expect(statSync(join(folder, 'main.js')).mtimeMs).toBe(1_000_000)
})

test('a build leaves what another one that runs has written beside, and removes what a dead one left', () => {
  const { pid: dead } = spawnSync(process.execPath, ['--version'])
  const running = `chunk-2.js.${process.ppid}.part`
  const folder = folderWith({ [running]: '', [`chunk-2.js.${dead}.part`]: '' })
  placeFiles(folder, built, { last: 'main.js' })
  expect(namesIn(folder).filter((name) => name.endsWith('.part'))).toEqual([running])
})
