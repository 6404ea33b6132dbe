import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** An empty one, for the time of one test. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
