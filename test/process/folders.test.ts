import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

// A startup with STATE_DIRECTORY=/proc/state and its --check-config ran forever, with a whole core.
test.skipIf(process.platform !== 'linux')('a folder below /proc, where none can be made, is an error', () => {
  const file = fileURLToPath(new URL('../../src/process/folders.ts', import.meta.url))
  const script = `const { makeFolders } = await import(${JSON.stringify(file)}); makeFolders('/proc/state/deeper')`
  const options = ['--import', 'tsx', '--input-type=module', '--eval', script]
  // Without an end of its own, the test would run forever too.
  const { status, stderr } = spawnSync(process.execPath, options, { timeout: 60_000, encoding: 'utf8' })
  expect(stderr).toContain('ENOENT')
  expect(status).toBe(1)
})
