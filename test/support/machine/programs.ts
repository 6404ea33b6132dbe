import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import packages from './debian-packages.json' with { type: 'json' }
import { environment } from './environment.ts'

/** What some tests need besides Node and npm. Each name is a tag: `describe('…', { tags: ['nginx'] }, …)`. */
export type Program = keyof typeof packages

declare module 'vitest' {
  interface TestTags {
    tags: Program
  }
}

export const programs = Object.keys(packages) as Program[]
export const debianPackageOf = (program: Program): string => packages[program]

/** Programs that do the same under another name. */
const standIns: Partial<Record<Program, readonly string[]>> = {
  'redis-server': ['valkey-server'],
}

/** Where a program is, or what does the same. */
export function pathOf(program: Program): string | undefined {
  const folders = (environment().PATH ?? '').split(delimiter)
  const names = [program, ...(standIns[program] ?? [])]
  return names
    .flatMap((name) => folders.map((folder) => join(folder, name)))
    .find(isExecutable)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
