import { json, passTarget } from '../../shared/backend-requests.ts'
import { gatewayName } from '../../shared/contender.ts'
import { type Figures, type Placed, stopAll } from '../../shared/stage.ts'
import { type Load, wrk } from '../../shared/wrk.ts'
import { checkPassThrough, jsonOf } from '../check-answers.ts'
import { directName, nginxName, undiciName } from '../contenders/contenders.ts'
import { type CaseResult, type Promised, type Row, valuesOf } from '../results.ts'
import {
  type BenchCase,
  type CaseContext,
  fromBackend,
  measureWarm,
  throughputColumns,
  withOtherBuilds,
} from './case.ts'

type PassLoad = Omit<Load, 'port' | 'seconds'>

const get: PassLoad = { ...fromBackend, target: passTarget }
const postOf = (bytes: number): PassLoad => ({
  ...get,
  method: 'POST',
  headers: { ...fromBackend.headers, ...json },
  body: jsonOf(bytes),
})

/** Small and large requests that are passed on unchanged, and how much longer one caller waits than without a gateway. */
export const passThrough: BenchCase = async (context) => {
  const { stage, otherBuilds } = context
  const placed = await stage.placeAll(withOtherBuilds(context, 'pass'))
  await checkPassThrough(directName, stage.upstreamPort)
  for (const one of placed) await checkPassThrough(one.contender.name, one.port)

  function measure(load: PassLoad): Promise<Row[]> {
    const direct = {
      name: directName,
      load: (seconds: number) => loadUpstream(stage.upstreamPort, load, seconds),
    }
    const throughOne = (one: Placed) => ({
      name: one.contender.name,
      load: (seconds: number) => one.load({ ...load, seconds }),
    })
    return measureWarm([direct, ...placed.map(throughOne)], context)
  }

  async function throughput(
    title: string,
    load: PassLoad,
    bound?: number,
  ): Promise<CaseResult> {
    const promise = {
      what: `pass-through, ${title}, requests per second of processor time`,
      figure: 'requestsPerCpuSecond',
      of: gatewayName,
      is: 'at least',
    } as const
    const overUndici: Promised = {
      ...promise,
      over: undiciName,
      ...(bound !== undefined && { bound }),
    }
    return {
      title: `pass-through, ${title}, 64 connections`,
      columns: throughputColumns,
      rows: await measure(load),
      promises: [
        overUndici,
        ...otherBuilds.map(({ name }) => ({ ...promise, over: name })),
      ],
    }
  }

  const results = [
    await throughput('small GET', get, 1.1),
    await throughput('1 KiB POST', postOf(1_024), 1.1),
    await throughput('64 KiB POST', postOf(65_536)),
    addedLatency(await measure({ ...get, connections: 1 }), context),
  ]
  await stopAll(placed)
  return results
}

/** The upstream shares its core with the load, so its own throughput is the limit of all contenders. */
async function loadUpstream(
  port: number,
  load: PassLoad,
  seconds: number,
): Promise<Figures> {
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
