import { gateway } from '../../shared/contender.ts'
import { type BenchCase, measureHits, throughputColumns } from './case.ts'

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
  const rows = await measureHits(placed, context)
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
