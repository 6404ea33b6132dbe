import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { isStale } from '../../scripts/build/stale.mjs'

const sources = ['src/main.ts', 'src/gateway/gateway.ts', 'package.json', 'scripts/build.mjs']

/** A repository whose sources and folders all have one time, and whose build began at another. */
function repository({ builtAt }: { builtAt?: number } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'stale-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const at = (name: string, seconds: number) => utimesSync(join(folder, name), seconds, seconds)
  const write = (name: string) => {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), '')
  }
  for (const name of sources) write(name)
  for (const name of [...sources, 'src/gateway', 'src', 'scripts']) at(name, 1_000)
  if (builtAt !== undefined) {
    write('dist/main.js')
    at('dist/main.js', builtAt)
  }
  return { folder, at }
}

test('a repository without dist/ is built', () => {
  expect(isStale(repository().folder)).toBe(true)
})

test('a build that began after the last edit is kept', () => {
  expect(isStale(repository({ builtAt: 1_001 }).folder)).toBe(false)
})

test.each(sources)('an edit of %s after the build began causes another build', (name) => {
  const { folder, at } = repository({ builtAt: 1_001 })
  at(name, 1_002)
  expect(isStale(folder)).toBe(true)
})

test('a source that was removed causes another build', () => {
  const { folder } = repository({ builtAt: 1_001 })
  rmSync(join(folder, 'src/gateway/gateway.ts'))
  expect(isStale(folder)).toBe(true)
})

test('a source that was added asks for another build, also with an older time of its own', () => {
  const { folder, at } = repository({ builtAt: 1_001 })
  writeFileSync(join(folder, 'src/gateway/new.ts'), '')
  at('src/gateway/new.ts', 999)
  expect(isStale(folder)).toBe(true)
})

test('a build from a time that is still to come, because the clock was set back, is not trusted', () => {
  expect(isStale(repository({ builtAt: Date.now() / 1_000 + 3_600 }).folder)).toBe(true)
})

test('files that no build reads cause no build', () => {
  const { folder } = repository({ builtAt: 1_001 })
  writeFileSync(join(folder, 'README.md'), '')
  expect(isStale(folder)).toBe(false)
})
