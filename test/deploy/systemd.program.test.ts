import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { isKnownName } from '../../src/config/settings.ts'
import { repository } from '../support/deploy/dockerfile.ts'

const unit = join(repository, 'deploy/systemd/quotegate.service')
const text = readFileSync(unit, 'utf8')
const inUnit = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(text)?.[1] ?? ''
const pairs = inUnit('Environment').split(' ')
const environment = Object.fromEntries(pairs.map((pair) => pair.split('=')))

test('systemd accepts the unit without a warning', { tags: ['systemd-analyze'] }, () => {
  const verified = spawnSync('systemd-analyze', ['verify', '--man=no', unit], {
    encoding: 'utf8',
  })
  expect(`${verified.status} ${verified.stderr}`).toBe('0 ')
})

test('the settings of the unit exist, and it waits for a drain', () => {
  expect(
    Object.keys(environment).filter((name) => name !== 'NODE_ENV' && !isKnownName(name)),
  ).toEqual([])
  const { drain } = loadConfig({
    ...environment,
    SWAP_BASE_URL: 'https://swap.example',
  }).config
  expect(Number(inUnit('TimeoutStopSec')) * 1_000).toBeGreaterThan(
    drain.delayMs + drain.timeoutMs + 2_000,
  )
})

test('a loop of failed startups ends', () => {
  const [restartS, starts] = [
    Number(inUnit('RestartSec')),
    Number(inUnit('StartLimitBurst')),
  ]
  // A start that is refused takes a second at most.
  expect((restartS + 1) * starts).toBeLessThan(Number(inUnit('StartLimitIntervalSec')))
  expect(inUnit('Restart')).toBe('on-failure')
})

test('the unit may write only to its ledger', () => {
  const protections = ['ProtectSystem', 'DynamicUser', 'StateDirectory'].map(inUnit)
  expect(protections).toEqual(['strict', 'yes', 'quotegate'])
})
