/**
 * What a second process is worth on two cores: one process beside two with a store that they share, in turns. Nothing is
 * pinned, and load and upstream take their part of the same cores. `npm run build && npx tsx bench/cost/two-processes.ts`
 */
import { parseArgs } from 'node:util'
import { newQuotes, orders, passTarget, quoteTarget } from '../shared/backend-requests.ts'
import { gateway } from '../shared/contender.ts'
import { builtProgram, machineAsText } from '../shared/machine.ts'
import { openStage, type Placed, stopAll } from '../shared/stage.ts'
import { startStore } from '../shared/store.ts'
import { compared, inTurns, type Variant } from './in-turns.ts'

const { values: flags } = parseArgs({
  options: {
    rounds: { type: 'string', default: '10' },
    seconds: { type: 'string', default: '2' },
    'port-base': { type: 'string', default: '18900' },
  },
})
const say = (text: string) => process.stderr.write(`${text}\n`)
const stage = await openStage({
  portBase: Number(flags['port-base']),
  pinned: undefined,
  program: builtProgram,
  say,
})
const store = await startStore()
const NODE_OPTIONS = '--max-old-space-size=512'
const alone = gateway('alone', { settings: { NODE_OPTIONS } })
const sharing = gateway('sharing', { settings: { NODE_OPTIONS, VALKEY_URL: store.url } })
const one = await stage.place(alone)
const two = [await stage.place(sharing), await stage.place(sharing)]

/** Half of the connections go to each process. What both answered is added up. */
const load: Placed['load'] = async (asked) => {
  const connections = asked.connections / two.length
  const each = await Promise.all(
    two.map((placed) => placed.load({ ...asked, connections })),
  )
  const sum = (figure: string) =>
    each.reduce((all, figures) => all + (figures[figure] ?? Number.NaN), 0)
  return { requests: sum('requests'), requestsPerSecond: sum('requestsPerSecond') }
}

const kinds: Variant['kinds'] = {
  'quote from memory': () => ({ target: quoteTarget }),
  'payment passed through (GET)': () => ({ target: passTarget }),
  'float order, judged and sent': () => orders,
  'quote fetched and kept': newQuotes,
}
const variants: Variant[] = [
  { name: 'one process', placed: one, kinds },
  { name: 'two processes and a store', placed: { ...one, load }, kinds },
]
const how = { rounds: Number(flags.rounds), seconds: Number(flags.seconds), say }
const measured = await inTurns(variants, how)
const column = { figure: 'requestsPerSecond', title: 'requests a second', digits: 0 }
process.stdout.write(
  `${machineAsText(undefined)}; ${how.rounds} rounds of ${how.seconds} s, medians with the lowest and highest.\n\n` +
    `${compared(measured, column)}\n`,
)
await stopAll([one, ...two])
await store.end()
await stage.close()
process.exit(0)
