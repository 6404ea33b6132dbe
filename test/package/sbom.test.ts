import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { productionPackages } from '../../scripts/production-packages.ts'

interface Bill {
  bomFormat: string
  metadata: { component: { name: string; version: string } }
  components: { group?: string; name: string; version: string; licenses?: unknown[]; hashes?: unknown[] }[]
}

const folder = mkdtempSync(join(tmpdir(), 'sbom-'))
let bill: Bill
beforeAll(() => {
  const file = join(folder, 'sbom.cdx.json')
  execFileSync('scripts/sbom.sh', [file])
  bill = JSON.parse(readFileSync(file, 'utf8')) as Bill
}, 120_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('the SBOM names every production package, and no development package', { tags: ['bash'] }, () => {
  const named = bill.components.map(({ group, name, version }) =>
    group === undefined ? `${name}@${version}` : `${group}/${name}@${version}`,
  )
  const expected = productionPackages().map(({ name, version }) => `${name}@${version}`)
  expect(expected.length).toBeGreaterThan(100)
  expect(named.sort()).toEqual(expected.sort())
})

test('the SBOM has the licence and hash of each package, and names the program and its version', {
  tags: ['bash'],
}, () => {
  expect(bill.bomFormat).toBe('CycloneDX')
  expect(bill.metadata.component.name).toBe('quotegate')
  for (const { licenses = [], hashes = [] } of bill.components) {
    expect([licenses.length, hashes.length]).toEqual([1, 1])
  }
})
