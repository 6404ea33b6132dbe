import { expect, test } from 'vitest'
import { environment } from '../support/machine/environment.ts'
import { World } from './world.ts'

// Ten minutes of two replicas with users, faults, restarts and clocks that are set, all of them drawn from a seed. 2,000
// seeds in `npm run check:long`. A seed that fails is played again alone: SIMULATION_SEED=17 SIMULATIONS=1.

const histories = Number(environment().SIMULATIONS ?? 5)
const firstSeed = Number(environment().SIMULATION_SEED ?? 1)
const minutes = 10

test('in a simulated world no user loses money, and nothing is held at its end', async () => {
  for (let seed = firstSeed; seed < firstSeed + histories; seed += 1) {
    const { facts, wrong } = await World.play(seed, minutes)
    expect(wrong, `SIMULATION_SEED=${seed} SIMULATIONS=1`).toEqual([])
    // Or nothing has been shown.
    expect(facts.hits, `seed ${seed}`).toBeGreaterThan(50)
    expect(facts.orders, `seed ${seed}`).toBeGreaterThan(100)
    expect(facts.refused, `seed ${seed}`).toBeGreaterThan(20)
    expect(facts.troubles, `seed ${seed}`).toBeGreaterThan(10)
  }
}, 36_000_000)

test('a seed gives the same history each time', async () => {
  const first = await World.play(firstSeed, 2)
  await World.play(firstSeed + 1, 1)
  expect(await World.play(firstSeed, 2)).toEqual(first)
})
