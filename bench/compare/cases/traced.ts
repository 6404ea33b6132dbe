import { appHeaders, quoteTarget } from '../../shared/backend-requests.ts'
import { gateway } from '../../shared/contender.ts'
import { loadServer } from '../../shared/load-server.ts'
import { stopAll } from '../../shared/stage.ts'
import { checkHit } from '../check-answers.ts'
import { type BenchCase, measureWarm, throughputColumns } from './case.ts'

const offName = 'tracing off'
const shares = [
  ['1 % traced', '0.01'],
  ['100 % traced', '1'],
] as const

/** What traces cost a hit. The upstream takes the place of the collector: it answers any POST with 200. */
export const tracedHit: BenchCase = async (context) => {
  const { stage } = context
  const tracedBy = (share: string) => ({
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${stage.upstreamPort}`,
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: share,
  })
  const placed = await stage.placeAll([
    gateway(offName),
    ...shares.map(([name, share]) => gateway(name, { settings: tracedBy(share) })),
  ])
  for (const one of placed) await checkHit(one, stage)
  const load = { target: quoteTarget, headers: appHeaders, connections: 64 }
  const loadables = placed.map((one) => ({
    name: one.contender.name,
    load: (seconds: number) => loadServer(one, { ...load, seconds }),
  }))
  const rows = await measureWarm(loadables, context)
  await stopAll(placed)
  const promise = {
    what: 'traced hit, requests per second of processor time',
    figure: 'requestsPerCpuSecond',
    over: offName,
    is: 'at least',
  } as const
  return [
    {
      id: 'traced',
      title: 'cached hit with tracing, 64 connections',
      columns: throughputColumns,
      rows,
      promises: shares.map(([of]) => ({ ...promise, of })),
    },
  ]
}
