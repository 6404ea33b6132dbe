import { describe, expect, test } from 'vitest'
import { countTests } from '../../scripts/ci/count-tests.ts'
import type { Program } from '../support/machine/programs.ts'
import { summaryOf, type TestRecord } from '../support/machine/skipped-tests.ts'

const skipped = (name: string, ...missing: Program[]) => ({ id: name, file: 'a.test.ts', name, missing })
const run = (record: Partial<TestRecord>): TestRecord => ({ passed: [], failed: [], skipped: [], ...record })

describe('a run that skipped tests', () => {
  test('ends with the programs that are missing, how many tests need each, and the packages of Debian', () => {
    const lines = summaryOf([
      skipped('one', 'nginx'),
      skipped('two', 'redis-server'),
      skipped('three', 'prometheus', 'redis-server'),
      skipped('four', 'promtool'),
    ])
    expect(lines).toEqual([
      'Skipped 4 tests, because these programs are not installed:',
      '  nginx            1 test (Debian package nginx-light)',
      '  prometheus       1 test (Debian package prometheus)',
      '  promtool         1 test (Debian package prometheus)',
      '  redis-server     2 tests (Debian package redis-server)',
      'Debian has all of them: apt-get install nginx-light prometheus redis-server',
    ])
  })

  test('names those that it skipped for another reason', () => {
    expect(summaryOf([skipped('a named pipe')])).toEqual([
      'Skipped for reasons that their files give:',
      '  a named pipe',
    ])
  })

  test('says nothing where nothing was skipped', () => {
    expect(summaryOf([])).toEqual([])
  })
})

describe('of a run on a bare machine and one of what that skipped', () => {
  const bare = run({
    passed: ['a', 'b'],
    skipped: [skipped('c', 'nginx'), skipped('d', 'curl')],
  })

  test('each test counts once', () => {
    expect(countTests([bare, run({ passed: ['b', 'c', 'd'] })])).toEqual({
      passed: 4,
      failed: 0,
      skipped: [],
    })
  })

  test('one that failed in either has failed', () => {
    expect(countTests([bare, run({ passed: ['c'], failed: ['b', 'd'] })])).toMatchObject({
      passed: 2,
      failed: 2,
    })
  })

  test('one that did not run in either is skipped', () => {
    const { skipped: left } = countTests([bare, run({ passed: ['c'] })])
    expect(left).toEqual([skipped('d', 'curl')])
  })
})
