#!/usr/bin/env node
/**
 * Runs the README's block of tests as it stands, as on a machine that has Node, npm and an ordinary system, and none of
 * the programs that some tests need: those are hidden from PATH.
 */
import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path) => readFileSync(join(root, path), 'utf8')

/** The commands that the README says are run here. */
export function blockOf(readme) {
  const [, block] =
    /^<!-- readme: run by scripts\/bare\.mjs -->\n^```sh\n([\s\S]*?)^```$/m.exec(
      readme,
    ) ?? []
  if (block === undefined)
    throw new Error('README.md has no block that is run by scripts/bare.mjs')
  return block
}

/** What the tests need, what stands in for it, and what a new machine does not have either. */
const hidden = new Set([
  ...Object.keys(JSON.parse(read('test/support/machine/debian-packages.json'))),
  'docker',
  'git',
  'valkey-server',
])

/** A folder with all programs of `path` that are not hidden. */
function fillFolder(folder, path) {
  // Packages of this repository are not the machine's.
  const sources = path.split(delimiter).filter((one) => !one.includes('node_modules'))
  for (const source of sources) {
    for (const name of namesIn(source)) {
      if (hidden.has(name) || name === 'node') continue
      try {
        symlinkSync(join(source, name), join(folder, name))
      } catch (error) {
        // An earlier folder of the path has it, and goes first.
        if (error.code !== 'EEXIST') throw error
      }
    }
  }
  // No link: npm and some tests put the folder of Node itself before all others.
  copyFileSync(process.execPath, join(folder, 'node'))
}

function namesIn(folder) {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function main() {
  const temporary = mkdtempSync(join(tmpdir(), 'bare-'))
  const [programs, browsers] = [join(temporary, 'bin'), join(temporary, 'browsers')]
  for (const folder of [programs, browsers]) mkdirSync(folder)
  try {
    // biome-ignore lint/style/noProcessEnv: what is started has the environment of this, but for the programs.
    const { CHROMIUM_PATH: _, ...environment } = process.env
    fillFolder(programs, environment.PATH ?? '')
    const { status } = spawnSync('sh', ['-euc', blockOf(read('README.md'))], {
      cwd: root,
      env: { ...environment, PATH: programs, PLAYWRIGHT_BROWSERS_PATH: browsers },
      stdio: 'inherit',
    })
    process.exitCode = status ?? 1
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main()
