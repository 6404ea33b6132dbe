import {
  appHeaders,
  bareName,
  fastifyLruName,
  gatewayName,
  nginxName,
  quoteTarget,
} from '../contenders/contender.ts'
import { checkHit } from '../harness/check-answers.ts'
import { stopAll } from '../harness/stage.ts'
import { type BenchCase, loadServer, measureWarm, throughputColumns } from './case.ts'

/** One cached quote, asked for by 64 connections. */
export const cachedHit: BenchCase = async (context) => {
  const { stage, contenders } = context
  const able = contenders.filter(({ skills }) => skills.includes('hit'))
  const placed = await stage.placeAll(able)
  const load = { target: quoteTarget, headers: appHeaders, connections: 64 }
  for (const one of placed) await checkHit(one, stage)
  const loadables = placed.map((one) => ({
    name: one.contender.name,
    load: (seconds: number) => loadServer(one, { ...load, seconds }),
  }))
  const rows = await measureWarm(loadables, context)
  await stopAll(placed)
  const promise = {
    what: 'cached hit',
    figure: 'requestsPerSecond',
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
        { ...promise, over: bareName, bound: 0.9 },
        { ...promise, over: fastifyLruName, bound: 1.45 },
        { ...promise, over: nginxName, bound: 0.6 },
      ],
    },
  ]
}
