import { spawnSync } from 'node:child_process'
import type { TestTagDefinition } from 'vitest/config'
import { findBrowser } from './browser.ts'
import { debianPackageOf, type Program, pathOf, programs } from './programs.ts'

/** A tag for each program. Where the program is missing, the tests with this tag are skipped. */
export async function programTags(): Promise<TestTagDefinition[]> {
  const isThere = await Promise.all(programs.map(isInstalled))
  return programs.map((name, index) => ({
    name,
    description: `needs ${name} (Debian: ${debianPackageOf(name)})`,
    ...(isThere[index] ? {} : { skip: true }),
  }))
}

async function isInstalled(program: Program): Promise<boolean> {
  if (program === 'chromium') return (await findBrowser()) !== undefined
  // That of macOS has other flags, and does not know this one.
  if (program === 'script') return spawnSync(program, ['--version']).status === 0
  return pathOf(program) !== undefined
}
