import { gatewayName } from '../../shared/contender.ts'
import { bareName, fastifyLruName, nginxName } from '../contenders/contenders.ts'
import { type BenchCase, measureHits, throughputColumns, withOtherBuilds } from './case.ts'

/** One cached quote, which 200 clients ask for over 64 connections. */
export const cachedHit: BenchCase = async (context) => {
  const { stage, otherBuilds } = context
  const placed = await stage.placeAll(withOtherBuilds(context, 'hit'))
  const rows = await measureHits(placed, context)
  const promise = {
    what: 'cached hit, requests per second of processor time',
    figure: 'requestsPerCpuSecond',
    of: gatewayName,
    is: 'at least',
  } as const
  return [
    {
      id: 'hit',
      title: `cached hit, ${stage.quoteBody.length}-byte quote, 64 connections`,
      columns: throughputColumns,
      rows,
      promises: [
        { ...promise, over: bareName, bound: 0.8 },
        { ...promise, over: fastifyLruName, bound: 1.2 },
        { ...promise, over: nginxName },
        ...otherBuilds.map(({ name }) => ({ ...promise, over: name, bound: 1 })),
      ],
    },
  ]
}
