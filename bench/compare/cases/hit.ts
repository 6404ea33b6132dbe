import { appHeaders, gateway, gatewayName, quoteTarget } from '../../shared/contender.ts'
import { loadServer } from '../../shared/load-server.ts'
import { stopAll } from '../../shared/stage.ts'
import { checkHit } from '../check-answers.ts'
import { bareName, fastifyLruName, nginxName } from '../contenders/contenders.ts'
import { type BenchCase, measureWarm, throughputColumns } from './case.ts'

/** No two requests of a connection alike, as where each has an id: then Node reads each of them (decision 17). */
const unlike = gateway(`${gatewayName}, an id in each request`)
const idInEach = `local count = 0
  function init()
    wrk.headers["X-Request-Id"] = "*"
    local text = wrk.format()
    local at = text:find("*", 1, true)
    before, after = text:sub(1, at - 1), text:sub(at + 1)
  end
  function request()
    count = count + 1
    return before .. count .. after
  end`

/** One cached quote, asked for by 64 connections. */
export const cachedHit: BenchCase = async (context) => {
  const { stage, contenders } = context
  const able = contenders.filter(({ skills }) => skills.includes('hit'))
  if (able.some(({ name }) => name === gatewayName)) able.splice(1, 0, unlike)
  const placed = await stage.placeAll(able)
  const load = { target: quoteTarget, headers: appHeaders, connections: 64 }
  for (const one of placed) await checkHit(one, stage)
  const loadables = placed.map((one) => ({
    name: one.contender.name,
    load: (seconds: number) =>
      loadServer(one, { ...load, seconds, requestScript: one.contender === unlike ? idInEach : '' }),
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
