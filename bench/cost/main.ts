/**
 * Processor time of each kind of request: `npm run cost`. `-- --before <folder>/dist/main.js` compares with another build,
 * `-- --nodes 20,22,24,26` versions of Node, in turns on one core. `-- --rounds 2 --seconds 1` is a short run.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import {
  keyedOrders,
  newQuotes,
  orders,
  passTarget,
  postsOf,
  quoteTarget,
} from '../shared/backend-requests.ts'
import { type Contender, gateway, gatewayName } from '../shared/contender.ts'
import { builtProgram, machineAsText, pinLoad } from '../shared/machine.ts'
import { openStage, stopAll } from '../shared/stage.ts'
import { compared, cpuColumn, inTurns, type Variant } from './in-turns.ts'

const { values: flags } = parseArgs({
  options: {
    before: { type: 'string' },
    nodes: { type: 'string' },
    rounds: { type: 'string', default: '10' },
    seconds: { type: 'string', default: '2' },
    'port-base': { type: 'string', default: '18300' },
  },
})
/** As deploy/kubernetes sets it. */
const settings = { NODE_OPTIONS: '--max-old-space-size=512' }
const say = (text: string) => process.stderr.write(`${text}\n`)

const kinds: Variant['kinds'] = {
  'quote from memory': () => ({ target: quoteTarget }),
  'quote fetched and kept': newQuotes,
  'float order, judged and sent': () => orders,
  'float order with a key': keyedOrders,
  'payment passed through (GET)': () => ({ target: passTarget }),
  'payment passed through (POST, 1 KiB)': () => postsOf('x'.repeat(1_024)),
}

/** The binaries of the npm package `node`, kept for the next run. */
function installedNode(version: string): string {
  const folder = join(tmpdir(), `quotegate-node-${version}`)
  const node = join(folder, 'node_modules', 'node', 'bin', 'node')
  // Its binary comes by an install script, which our .npmrc forbids.
  const flagsOfNpm = [
    '--prefix',
    folder,
    '--ignore-scripts=false',
    '--no-audit',
    '--no-fund',
  ]
  if (!existsSync(node))
    execFileSync('npm', ['install', ...flagsOfNpm, `node@${version}`], {
      stdio: 'ignore',
    })
  return node
}

function contenders(): Contender[] {
  if (flags.before)
    return [
      gateway('before', { settings, build: flags.before }),
      gateway('after', { settings }),
    ]
  if (flags.nodes === undefined) return [gateway(gatewayName, { settings })]
  return flags.nodes.split(',').map((version) => {
    const node = installedNode(version)
    const name = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()
    return gateway(name, { settings, node })
  })
}

const pinned = pinLoad()
const stage = await openStage({
  portBase: Number(flags['port-base']),
  pinned,
  program: builtProgram,
  say,
})
const placed = await stage.placeAll(contenders())
const how = { rounds: Number(flags.rounds), seconds: Number(flags.seconds), say }
const variants = placed.map((one) => ({ name: one.contender.name, placed: one, kinds }))
const report = compared(await inTurns(variants, how), cpuColumn)
await stopAll(placed)
await stage.close()
process.stdout.write(`${machineAsText(pinned)}; 64 connections, metrics on, \`TRUST_PROXY=loopback\`,
\`NODE_OPTIONS=${settings.NODE_OPTIONS}\`; ${how.rounds} rounds of ${how.seconds} s, medians with the lowest and highest.

${report}
`)
