import { expect, it } from 'vitest'
import { Events } from '../../src/events.ts'
import { CoolDowns } from '../../src/quotes/cool-downs.ts'
import { createTestClock } from '../support/clients/quotes.ts'

function stage() {
  const clock = createTestClock()
  const begun: string[] = []
  const coolDowns = new CoolDowns(
    clock,
    new Events([{ coolDownBegan: (_application, address) => void begun.push(address) }]),
  )
  return { clock, begun, coolDowns }
}
const client = (address: string, application = 'web') => ({ application, credentials: application, address })

it('a shorter Retry-After does not cut a longer one, and a longer one prolongs it', () => {
  const { clock, begun, coolDowns } = stage()
  coolDowns.refused(client('a'), 9_000)
  clock.advance(1_000)
  coolDowns.refused(client('a'), 2_000)
  expect(coolDowns.leftMs(client('a'))).toBe(8_000)
  coolDowns.refused(client('a'), 20_000)
  expect(coolDowns.leftMs(client('a'))).toBe(20_000)
  expect(begun).toEqual(['a'])
  clock.advance(20_000)
  expect([coolDowns.leftMs(client('a')), coolDowns.list()]).toEqual([0, []])
  coolDowns.refused(client('a'))
  expect(begun).toEqual(['a', 'a'])
})

it('is counted on the steady clock', () => {
  const wall = createTestClock()
  const coolDowns = new CoolDowns({ ...wall, steadyMs: () => 1_000 }, new Events())
  coolDowns.refused(client('a'), 5_000)
  wall.advance(3_600_000)
  expect(coolDowns.leftMs(client('a'))).toBe(5_000)
})

it('a crowd of addresses is remembered up to 1,000', () => {
  const { coolDowns } = stage()
  for (let index = 0; index < 1_001; index += 1) coolDowns.refused(client(String(index)), 9_000)
  expect(coolDowns.list()).toHaveLength(1_000)
  expect([coolDowns.leftMs(client('0')), coolDowns.leftMs(client('1000'))]).toEqual([0, 9_000])
})
