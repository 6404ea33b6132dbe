import { newQuotes, quoteTarget } from '../../shared/backend-requests.ts'
import { gatewayName } from '../../shared/contender.ts'
import { stopAll } from '../../shared/stage.ts'
import { checkHit, checkMiss } from '../check-answers.ts'
import {
  bareName,
  byHandName,
  fastifyLruName,
  fastifyProxyName,
  nginxName,
  nginxPassingName,
} from '../contenders/contenders.ts'
import {
  type BenchCase,
  fromBackend,
  measureWarm,
  throughputColumns,
  withOtherBuilds,
} from './case.ts'

const promise = {
  figure: 'requestsPerCpuSecond',
  of: gatewayName,
  is: 'at least',
} as const

/** One cached quote, which 200 clients ask for over 64 connections. */
export const cachedHit: BenchCase = async (context) => {
  const { stage, otherBuilds } = context
  const placed = await stage.placeAll(withOtherBuilds(context, 'hit'))
  for (const one of placed) await checkHit(one, stage)
  const loadables = placed.map((one) => ({
    name: one.contender.name,
    load: (seconds: number) => one.load({ ...fromBackend, target: quoteTarget, seconds }),
  }))
  const rows = await measureWarm(loadables, context)
  await stopAll(placed)
  const what = 'cached hit, requests per second of processor time'
  return [
    {
      title: `cached hit, ${stage.quoteBody.length}-byte quote, 64 connections`,
      columns: throughputColumns,
      rows,
      promises: [
        { ...promise, what, over: bareName, bound: 0.8 },
        { ...promise, what, over: fastifyLruName, bound: 1.2 },
        { ...promise, what, over: nginxName },
        ...otherBuilds.map(({ name }) => ({ ...promise, what, over: name, bound: 1 })),
      ],
    },
  ]
}

/** A new amount with each request: every quote is fetched and kept. */
export const missedQuote: BenchCase = async (context) => {
  const placed = await context.stage.placeAll(withOtherBuilds(context, 'fetch'))
  for (const one of placed) await checkMiss(one)
  const loadables = placed.map((one) => ({
    name: one.contender.name,
    load: (seconds: number) => one.load({ ...fromBackend, ...newQuotes(), seconds }),
  }))
  const rows = await measureWarm(loadables, context)
  await stopAll(placed)
  const what = 'missed quote, requests per second of processor time'
  const others = [
    byHandName,
    fastifyLruName,
    fastifyProxyName,
    nginxName,
    nginxPassingName,
    ...context.otherBuilds.map(({ name }) => name),
  ]
  return [
    {
      title: 'quote that is not cached, 64 connections',
      columns: throughputColumns,
      rows,
      promises: others.map((over) => ({ ...promise, what, over })),
    },
  ]
}
