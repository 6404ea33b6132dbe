/**
 * Processor time of each kind of request at two builds of the gateway, in turns on one core: `npx tsx bench/cost/turns.ts
 * --before <folder>/dist/main.js`. Prints the medians, and the median of the ratios of each round.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { gateway } from '../shared/contender.ts'
import { table } from '../shared/generated.ts'
import { loadServer } from '../shared/load-server.ts'
import { benchDirectory, describeMachine, pinLoad } from '../shared/machine.ts'
import { openStage, stopAll } from '../shared/stage.ts'
import { kinds } from './kinds.ts'

const { values: flags } = parseArgs({
  options: {
    before: { type: 'string' },
    after: { type: 'string', default: join(benchDirectory, '..', 'dist', 'main.js') },
    rounds: { type: 'string', default: '10' },
    seconds: { type: 'string', default: '2' },
    'port-base': { type: 'string', default: '18400' },
  },
})
if (flags.before === undefined) throw new Error('--before: the main.js of the other build')

const pinned = pinLoad()
const say = (text: string) => process.stderr.write(`${text}\n`)
const portBase = Number(flags['port-base'])
const stages = await Promise.all(
  [flags.before, flags.after].map((program, index) =>
    openStage({ portBase: portBase + 10 * index, pinned, program, say }),
  ),
)
const placed = await Promise.all(stages.map((stage) => stage.place(gateway('quotegate', { settings: {} }))))

const median = (numbers: readonly number[]) =>
  numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN
const rows: string[][] = []
for (const { kind, load } of kinds()) {
  const micros: [number[], number[]] = [[], []]
  for (let round = 0; round < Number(flags.rounds); round += 1) {
    // Each of them is first in every other round.
    for (const which of round % 2 === 0 ? [0, 1] : [1, 0]) {
      const server = placed[which]
      if (server === undefined) continue
      const how = { ...load, connections: 64, seconds: Number(flags.seconds) }
      if (how.amount !== undefined) how.amount = `${(round + 1) * 1_000_000} + sent`
      micros[which]?.push((await loadServer(server, how)).cpuMicros ?? Number.NaN)
    }
  }
  const ratios = micros[1].map((after, round) => after / (micros[0][round] ?? Number.NaN))
  rows.push([kind, ...micros.map((of) => median(of).toFixed(0)), median(ratios).toFixed(2)])
}
await stopAll(placed)
for (const stage of stages) await stage.close()
const { processor, node } = describeMachine(pinned)
process.stdout.write(`${processor}, Node ${node}; ${flags.rounds} rounds of ${flags.seconds} s\n\n`)
process.stdout.write(`${table(['a request', 'before, µs', 'after, µs', 'ratio'], rows)}\n`)
