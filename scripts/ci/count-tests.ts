import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { TestRecord } from '../../test/support/machine/skipped-tests.ts'

/** Of several runs: each test once. One that a run skipped counts as what another run made of it. */
export function countTests(runs: readonly TestRecord[]) {
  const failed = new Set(runs.flatMap((run) => run.failed))
  const passed = new Set(runs.flatMap((run) => run.passed).filter((id) => !failed.has(id)))
  const skipped = new Map(runs.flatMap((run) => run.skipped.map((test) => [test.id, test] as const)))
  for (const id of [...passed, ...failed]) skipped.delete(id)
  return { passed: passed.size, failed: failed.size, skipped: [...skipped.values()] }
}

// count-tests.ts <records>: the last line has the form of vitest's own.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const runs = process.argv.slice(2).map((path) => JSON.parse(readFileSync(path, 'utf8')) as TestRecord)
  const { passed, failed, skipped } = countTests(runs)
  for (const { file, name } of skipped) process.stdout.write(`not run: ${file} > ${name}\n`)
  process.stdout.write(` Tests  ${passed} passed | ${failed} failed | ${skipped.length} skipped\n`)
  process.exitCode = failed + skipped.length > 0 ? 1 : 0
}
