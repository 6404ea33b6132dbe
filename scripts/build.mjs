#!/usr/bin/env node
/**
 * Builds dist/: the program, and the library for `import` and `require`.
 *   --if-stale   only if a source is newer than dist/
 *   --image      the program alone, for the image: into program/
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { declarations } from './build/declarations.mjs'
import { library } from './build/library.mjs'
import { placeFiles } from './build/place.mjs'
import { program } from './build/program.mjs'
import { isStale, root } from './build/stale.mjs'

const flags = new Set(process.argv.slice(2))
for (const flag of flags) {
  if (!['--if-stale', '--image'].includes(flag))
    throw new Error(`unknown flag: ${flag} (--if-stale, --image)`)
}

if (flags.has('--image')) {
  const folder = join(root, 'program')
  const files = await program('program/dist')
  rmSync(folder, { recursive: true, force: true })
  placeFiles(join(folder, 'dist'), files, { last: 'main.js' })
} else if (!flags.has('--if-stale') || isStale()) {
  // An edit that comes while this runs is newer than what was built, whether it was still read or not.
  const startedAt = new Date()
  if (flags.has('--if-stale')) process.stderr.write('building dist/\n')
  const parts = await Promise.all([
    program('dist'),
    library('dist'),
    declarations('types'),
  ])
  placeFiles(join(root, 'dist'), new Map(parts.flatMap((files) => [...files])), {
    last: 'main.js',
    startedAt,
  })
}
