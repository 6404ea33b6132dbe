import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { TestRecord } from '../../test/support/machine/skipped-tests.ts'

// Runs the tests that a run skipped because a program was missing, and no other:
// run-skipped.ts <record of that run> [<start of a path whose tests are left out>]
const [, , record = '', leftOut] = process.argv
const { skipped } = JSON.parse(readFileSync(record, 'utf8')) as TestRecord
const isLeftOut = (file: string) => leftOut !== undefined && file.startsWith(leftOut)
const forPrograms = skipped.filter(({ file, missing }) => missing.length > 0 && !isLeftOut(file))
const programs = new Set(forPrograms.flatMap(({ missing }) => missing))
// The files are named so that no other is loaded.
const files = new Set(forPrograms.map(({ file }) => file))
if (files.size === 0) throw new Error('no test was skipped for a program')
const vitest = [
  'node_modules/vitest/vitest.mjs',
  'run',
  ...files,
  '--tags-filter',
  [...programs].join(' or '),
]
const { status } = spawnSync(process.execPath, vitest, { stdio: 'inherit' })
process.exitCode = status ?? 1
