import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const bench = fileURLToPath(new URL('../../bench/ledger/main.ts', import.meta.url))

// The time that the bench measures as well is a machine's. What bounds it is in test/orders/terms-index.test.ts.
test('an entry of a full ledger with ordinary terms takes at most 700 bytes of memory', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', '--import', 'tsx', bench])
  const rows = [...stdout.matchAll(/^\| (.+ amounts?, .+?) \| (\d+) \|/gm)]
  const bytes = Object.fromEntries(rows.map(([, what = '', measured]) => [what, Number(measured)]))
  expect(Object.keys(bytes)).toEqual([
    'one amount, most expired',
    '5,000 amounts, most expired',
    '5,000 amounts, all live',
  ])
  // Less would mean that nothing was measured.
  for (const measured of Object.values(bytes)) expect(measured).toBeGreaterThan(200)
  for (const measured of Object.values(bytes)) expect(measured).toBeLessThanOrEqual(700)
}, 600_000)
