import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { isPermissive, productionPackages } from '../../scripts/production-packages.ts'
import { newFolder } from '../support/machine/new-folder.ts'
import { root } from './tarball.ts'

const read = (path: string) => readFileSync(join(root, path), 'utf8')

test('the decision record gives a reason for each dependency, and for no other package', () => {
  const record = read('docs/decisions/0008-dependencies.md')
  const named = [...record.matchAll(/^\| `(.+?)` \| .{20,}\. \|/gm)].map(
    ([, name = '']) => name,
  )
  const { dependencies, optionalDependencies } = JSON.parse(read('package.json'))
  // The client of the shared store is written down before it is there.
  const expected = new Set([
    ...Object.keys({ ...dependencies, ...optionalDependencies }),
    'ioredis',
  ])
  expect(named).toEqual([...expected].sort())
})

test('every package that is installed has a permissive licence', () => {
  const packages = productionPackages()
  expect(packages.filter(({ direct }) => direct).map(({ name }) => name)).toContain(
    'express',
  )
  expect(packages.filter(({ license }) => !isPermissive(license))).toEqual([])
})

interface Bill {
  metadata: { component: { name: string } }
  components: {
    group?: string
    name: string
    version: string
    licenses?: unknown[]
    hashes?: unknown[]
  }[]
}

test('the SBOM names every production package and no other, each with its licence and hash', {
  tags: ['bash'],
}, () => {
  const file = join(newFolder(), 'sbom.cdx.json')
  execFileSync('scripts/sbom.sh', [file])
  const { metadata, components } = JSON.parse(readFileSync(file, 'utf8')) as Bill
  expect(metadata.component.name).toBe('quotegate')
  const named = components.map(({ group, name, version }) =>
    group === undefined ? `${name}@${version}` : `${group}/${name}@${version}`,
  )
  expect(named.sort()).toEqual(
    productionPackages()
      .map(({ name, version }) => `${name}@${version}`)
      .sort(),
  )
  for (const { licenses = [], hashes = [] } of components)
    expect([licenses.length, hashes.length]).toEqual([1, 1])
})
