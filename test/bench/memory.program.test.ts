import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const bench = fileURLToPath(new URL('../../bench/cost/memory.ts', import.meta.url))

test('a cached quote, and an entry of a full ledger with ordinary terms, takes at most 700 bytes of memory', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--expose-gc',
    '--import',
    'tsx',
    bench,
    '50000',
  ])
  const rows = [
    ...stdout.matchAll(
      /^\| (cache|ledger, (?:one amount|5,000 amounts), (?:most over|all live)) +\| +(\d+) \|/gm,
    ),
  ]
  const bytes = Object.fromEntries(rows.map(([, what = '', measured]) => [what, Number(measured)]))
  expect(Object.keys(bytes)).toEqual([
    'cache',
    'ledger, one amount, most over',
    'ledger, one amount, all live',
    'ledger, 5,000 amounts, most over',
    'ledger, 5,000 amounts, all live',
  ])
  // Less would mean that nothing was measured.
  for (const measured of Object.values(bytes)) expect(measured).toBeGreaterThan(200)
  for (const measured of Object.values(bytes)) expect(measured).toBeLessThanOrEqual(700)
}, 600_000)
