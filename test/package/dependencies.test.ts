import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { isPermissive, productionPackages } from '../../scripts/production-packages.ts'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

test('the decision record gives a reason for each dependency, and for no other package', () => {
  const record = read('docs/decisions/0008-dependencies.md')
  const reasons = [...record.matchAll(/^\| `(.+?)` \| (.*?) \|/gm)].map(([, name = '', reason]) => [
    name,
    reason,
  ])
  const { dependencies, optionalDependencies } = JSON.parse(read('package.json'))
  // The client of the shared store is written down before it is there.
  const expected = new Set([...Object.keys({ ...dependencies, ...optionalDependencies }), 'ioredis'])
  expect(reasons.map(([name]) => name)).toEqual([...expected].sort())
  for (const [, reason] of reasons) expect(reason).toMatch(/^.{20,}\.$/)
})

test('every package that is installed has a permissive licence', () => {
  const packages = productionPackages()
  expect(packages.filter(({ direct }) => direct).map(({ name }) => name)).toContain('express')
  expect(packages.filter(({ license }) => !isPermissive(license))).toEqual([])
})
