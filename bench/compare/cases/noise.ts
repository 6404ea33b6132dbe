import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { appHeaders, headerLines, passTarget, quoteTarget } from '../../shared/backend-requests.ts'
import { gateway, gatewayName } from '../../shared/contender.ts'
import { type Figures, loadServer } from '../../shared/load-server.ts'
import { benchDirectory, givingWay, type Pinning } from '../../shared/machine.ts'
import { openStage, type Placed, stopAll } from '../../shared/stage.ts'
import { checkHit } from '../check-answers.ts'
import { bareName } from '../contenders/contenders.ts'
import { type BenchCase, type Loadable, measureWarm } from './case.ts'

interface Noise {
  title: string
  perSecond: number
  /** A * is replaced by a new number each time. */
  target: string
  /** To the operations listener of a contender that has one. */
  toOperations?: true
}

const noises: readonly Noise[] = [
  { title: 'a scrape every 200 ms', perSecond: 5, target: '/metrics', toOperations: true },
  // Each new amount is a miss and evicts another quote.
  {
    title: 'an eviction storm, 500 a second',
    perSecond: 500,
    target: '/v3/pairs/ETH_USDC/quotes?amount=*',
  },
  { title: '200 pass-through requests a second', perSecond: 200, target: passTarget },
]
const beside = (name: string, { title }: Noise) => `${name}, ${title}`

/** So few that every quote of the storm evicts another. */
const storeEntries = '1000'
/** Few requests decide a p99: it differs by half between two rounds of one server, a median by a tenth. */
const timesTheRounds = 2
/** After the ports of all other contenders. */
const ownPorts = 200
const load = { target: quoteTarget, headers: appHeaders, connections: 64 }

/**
 * Whether hits wait for other work: their p99 during that work. Bare node:http gets the same other requests, because the
 * program that sends them takes time from the load generator, whatever the server does with them.
 */
export const noise: BenchCase = async (context) => {
  const { contenders } = context
  const { options } = context.stage
  // A load generator that waits for its core would count that wait as the server's.
  const stage = await openStage({ ...options, portBase: options.portBase + ownPorts, upstreamGivesWay: true })
  const bare = contenders.filter(({ name }) => name === bareName)
  const placed = await stage.placeAll([
    gateway(gatewayName, { settings: { QUOTE_CACHE_ENTRIES: storeEntries } }),
    ...bare,
  ])
  for (const one of placed) await checkHit(one, stage)
  const loadables: Loadable[] = placed.map((one) => ({
    name: one.contender.name,
    load: (seconds) => loadServer(one, { ...load, seconds }),
  }))
  for (const each of noises) {
    for (const one of placed) {
      const name = beside(one.contender.name, each)
      const often = { ...each, perSecond: each.perSecond * 10 }
      loadables.push({
        name,
        load: (seconds) => loadBeside(one, each, seconds, options.pinned),
        warmUp: (seconds) => loadBeside(one, often, seconds, options.pinned),
      })
    }
  }
  const rounds = context.quick ? context.rounds : context.rounds * timesTheRounds
  const rows = await measureWarm(loadables, { ...context, rounds })
  await stopAll(placed)
  await stage.close()
  return [
    {
      id: 'noise',
      title: `cached hit beside other work, 64 connections, ${rounds} rounds`,
      columns: [
        { figure: 'p99Ms', title: 'p99 ms', digits: 2 },
        { figure: 'p50Ms', title: 'p50 ms', digits: 2 },
        { figure: 'requestsPerSecond', title: 'hits/s', digits: 0 },
        { figure: 'besideTimes', title: 'other work done', digits: 0 },
      ],
      rows,
      promises: noises.map((each) => ({
        what: `p99 of hits beside ${each.title}`,
        figure: 'p99Ms',
        of: beside(gatewayName, each),
        over: beside(bareName, each),
        bound: 2,
        is: 'at most' as const,
      })),
    },
  ]
}

async function loadBeside(
  placed: Placed,
  { title, perSecond, target, toOperations }: Noise,
  seconds: number,
  pinned: Pinning | undefined,
): Promise<Figures> {
  const port = toOperations && placed.contender.name === gatewayName ? placed.operationsPort : placed.port
  const maker = join(benchDirectory, 'compare', 'noise.mjs')
  const line = [process.execPath, maker, String(port), String(perSecond), target, ...headerLines()]
  const [command, ...given] = givingWay(line, pinned)
  const child: ChildProcess = spawn(command, given, { stdio: ['ignore', 'pipe', 'inherit'] })
  let said = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  if (child.stdout) await once(child.stdout, 'data')
  const figures = await loadServer(placed, { ...load, seconds })
  const ended = once(child, 'close')
  child.kill('SIGTERM')
  await ended
  const besideTimes = Number(/done (\d+)/.exec(said)?.[1])
  if (!(besideTimes > 0)) throw new Error(`the other work (${title}) was not done: ${said}`)
  return { ...figures, besideTimes }
}
