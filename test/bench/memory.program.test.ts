import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const bench = fileURLToPath(new URL('../../bench/cost/memory.ts', import.meta.url))

test('a cached quote, and an entry of a full ledger with ordinary terms, takes at most 700 bytes of memory', async () => {
  const program = ['--expose-gc', '--import', 'tsx', bench, '50000']
  const { stdout } = await promisify(execFile)(process.execPath, program)
  const row =
    /^\| (cache|ledger, (?:one amount|5,000 amounts), (?:most over|all live)) +\| +(\d+) \|/gm
  const rows = Array.from(stdout.matchAll(row), ([, what = '', measured]) => [
    what,
    Number(measured),
  ])
  const bytes = Object.fromEntries(rows) as Record<string, number>
  expect(Object.keys(bytes)).toEqual([
    'cache',
    'ledger, one amount, most over',
    'ledger, one amount, all live',
    'ledger, 5,000 amounts, most over',
    'ledger, 5,000 amounts, all live',
  ])
  // Less would mean that nothing was measured.
  expect(Math.min(...Object.values(bytes))).toBeGreaterThan(200)
  expect(Math.max(...Object.values(bytes))).toBeLessThanOrEqual(700)
}, 600_000)
