import { mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { isStale } from '../../scripts/build/stale.mjs'
import { newFolder } from '../support/machine/new-folder.ts'

const sources = [
  'src/main.ts',
  'src/gateway/gateway.ts',
  'package.json',
  'scripts/build.mjs',
]

/** A repository whose sources and folders all have the time 1,000, and whose build began at another. */
function repository(builtAt: number | undefined) {
  const folder = newFolder()
  const touch = (name: string, seconds: number) =>
    utimesSync(join(folder, name), seconds, seconds)
  const write = (name: string, seconds: number) => {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), '')
    touch(name, seconds)
  }
  for (const name of sources) write(name, 1_000)
  for (const name of ['src/gateway', 'src', 'scripts']) touch(name, 1_000)
  if (builtAt !== undefined) write('dist/main.js', builtAt)
  return { folder, write, remove: (name: string) => rmSync(join(folder, name)) }
}
type Change = (changed: ReturnType<typeof repository>) => void

const nothing: Change = () => {}
const inAnHour = Date.now() / 1_000 + 3_600

test.each<[what: string, builtAt: number | undefined, change: Change, stale: boolean]>([
  ['there is no dist/', undefined, nothing, true],
  ['nothing was edited since the build began', 1_001, nothing, false],
  ...sources.map((name): [string, number, Change, boolean] => {
    return [`${name} was edited since`, 1_001, ({ write }) => write(name, 1_002), true]
  }),
  ['a source was removed', 1_001, ({ remove }) => remove('src/gateway/gateway.ts'), true],
  [
    'a source with an older time was added',
    1_001,
    ({ write }) => write('src/gateway/new.ts', 999),
    true,
  ],
  // Because the clock was set back.
  ['the build is from a time that is still to come', inAnHour, nothing, true],
  [
    'a file that no build reads is newer',
    1_001,
    ({ write }) => write('README.md', 1_002),
    false,
  ],
])('where %s', (_what, builtAt, change, stale) => {
  const made = repository(builtAt)
  change(made)
  expect(isStale(made.folder)).toBe(stale)
})
