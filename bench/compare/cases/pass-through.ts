import { appHeaders, gatewayName, passTarget } from '../../shared/contender.ts'
import { type Figures, loadServer } from '../../shared/load-server.ts'
import { type Placed, stopAll } from '../../shared/stage.ts'
import { type Load, wrk } from '../../shared/wrk.ts'
import { checkPassThrough, jsonOf } from '../check-answers.ts'
import { directName, fastifyProxyName, middlewareName, nginxName } from '../contenders/contenders.ts'
import type { CaseResult, Promised } from '../result.ts'
import { type Row, valuesOf } from '../rounds.ts'
import { type BenchCase, type CaseContext, measureWarm, throughputColumns } from './case.ts'

type PassLoad = Omit<Load, 'port' | 'seconds'>

const get: PassLoad = { target: passTarget, headers: appHeaders, connections: 64 }
const postOf = (bytes: number): PassLoad => ({
  ...get,
  method: 'POST',
  headers: { ...appHeaders, 'Content-Type': 'application/json' },
  body: jsonOf(bytes),
})

function atLeast(what: string, bounds: Record<string, number>): Promised[] {
  return Object.entries(bounds).map(([over, bound]) => ({
    what,
    figure: 'requestsPerSecond',
    of: gatewayName,
    over,
    bound,
    is: 'at least',
  }))
}

/** What is passed on unchanged: small and large, and how much longer one caller waits than without a gateway. */
export const passThrough: BenchCase = async (context) => {
  const { stage, contenders } = context
  const placed = await stage.placeAll(contenders.filter(({ skills }) => skills.includes('pass')))
  await checkPassThrough(directName, stage.upstreamPort)
  for (const one of placed) await checkPassThrough(one.contender.name, one.port)

  function measure(load: PassLoad): Promise<Row[]> {
    const direct = {
      name: directName,
      load: (seconds: number) => loadUpstream(stage.upstreamPort, load, seconds),
    }
    const throughOne = (one: Placed) => ({
      name: one.contender.name,
      load: (seconds: number) => loadServer(one, { ...load, seconds }),
    })
    return measureWarm([direct, ...placed.map(throughOne)], context)
  }

  const peers = { [fastifyProxyName]: 2, [middlewareName]: 5.5 }
  const throughput = async (id: string, title: string, load: PassLoad, bounds: Record<string, number>) => ({
    id,
    title: `pass-through, ${title}, 64 connections`,
    columns: throughputColumns,
    rows: await measure(load),
    promises: atLeast(`pass-through, ${title}`, bounds),
  })
  const results: CaseResult[] = [
    await throughput('pass-get', 'small GET', get, peers),
    await throughput('pass-post-1k', '1 KiB POST', postOf(1_024), peers),
    await throughput('pass-post-64k', '64 KiB POST', postOf(65_536), { [fastifyProxyName]: 1.4 }),
    addedLatency(await measure({ ...get, connections: 1 }), context),
  ]
  await stopAll(placed)
  return results
}

/** The upstream shares its core with the load: what it does by itself is the ceiling of all of them. */
async function loadUpstream(port: number, load: PassLoad, seconds: number): Promise<Figures> {
  const { requestsPerSecond, p50Ms, p99Ms } = await wrk({ ...load, port, seconds })
  return { requestsPerSecond, p50Ms, p99Ms }
}

function addedLatency(rows: Row[], { rounds }: CaseContext): CaseResult {
  const direct = rows.find(({ name }) => name === directName)
  const own = direct === undefined ? [] : valuesOf(direct, 'p50Ms')
  const added = rows
    .filter((row) => row !== direct)
    .map(({ name, rounds: measured }) => ({
      name,
      rounds: measured.slice(0, rounds).map((figures, round) => ({
        ...figures,
        addedMs: (figures.p50Ms ?? Number.NaN) - (own[round] ?? 0),
      })),
    }))
  return {
    id: 'latency',
    title: 'pass-through, small GET, 1 connection: median wait beyond the upstream’s own',
    columns: [
      { figure: 'addedMs', title: 'added ms', digits: 3 },
      { figure: 'p50Ms', title: 'p50 ms', digits: 3 },
      { figure: 'p99Ms', title: 'p99 ms', digits: 3 },
    ],
    rows: added,
    promises: [
      {
        what: 'added latency',
        figure: 'addedMs',
        of: gatewayName,
        over: nginxName,
        bound: 1.5,
        is: 'at most',
      },
    ],
  }
}
