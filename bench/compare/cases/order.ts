import { json, orderBody, orderTarget, passTarget } from '../../shared/backend-requests.ts'
import { gateway, gatewayName } from '../../shared/contender.ts'
import { type Figures, type Placed, stopAll } from '../../shared/stage.ts'
import { checkOrder, checkPassThrough } from '../check-answers.ts'
import { type BenchCase, fromBackend, measureWarm, throughputColumns } from './case.ts'

const get = { ...fromBackend, target: passTarget }
const order = {
  ...get,
  target: orderTarget,
  method: 'POST',
  headers: { ...get.headers, ...json },
  body: orderBody,
}
const orderRow = (name: string) => `${name}, float order`
const getRow = (name: string) => `${name}, small GET`

/**
 * Float orders for one live quote, and small GETs as their measure, through the same process in the same rounds. The
 * first order removes the quote from the cache; the ledger still knows it, so the orders after it are judged alike.
 */
export const floatOrder: BenchCase = async (context) => {
  const { stage, otherBuilds } = context
  const placed = await stage.placeAll([gateway(gatewayName), ...otherBuilds])
  for (const one of placed) {
    await checkPassThrough(one.contender.name, one.port)
    await checkOrder(one)
  }
  const loadables = placed.flatMap((one) => [
    { name: orderRow(one.contender.name), load: (seconds: number) => loadWithOrders(one, seconds) },
    {
      name: getRow(one.contender.name),
      load: (seconds: number) => one.load({ ...get, seconds }),
    },
  ])
  const rows = await measureWarm(loadables, context)
  await stopAll(placed)
  const promise = { of: orderRow(gatewayName), what: 'float order, processor time' }
  return [
    {
      title: 'float order for a live quote, 64 connections',
      columns: throughputColumns,
      rows,
      promises: [
        {
          ...promise,
          figure: 'cpuMicros',
          over: getRow(gatewayName),
          bound: 2.5,
          is: 'at most',
        },
        ...otherBuilds.map(({ name }) => ({
          ...promise,
          figure: 'cpuMicros',
          over: orderRow(name),
          is: 'at most' as const,
        })),
      ],
    },
  ]
}

/** An order that is not judged `live` takes another way and would be another figure. */
async function loadWithOrders(placed: Placed, seconds: number): Promise<Figures> {
  const before = await ordersOf(placed)
  const figures = await placed.load({ ...order, seconds })
  const after = await ordersOf(placed)
  const others = after.others - before.others
  if (others > 0 || after.live === before.live) {
    throw new Error(`${placed.contender.name}: ${others} orders were not forwarded as live`)
  }
  return figures
}

async function ordersOf({ operationsPort }: Placed): Promise<{ live: number; others: number }> {
  const page = await (await fetch(`http://127.0.0.1:${operationsPort}/metrics`)).text()
  const counts = { live: 0, others: 0 }
  for (const [, labels = '', value] of page.matchAll(/^quotegate_float_orders_total\{(.*)\} (\d+)$/gm)) {
    const isLive = labels.includes('decision="forwarded"') && labels.includes('reason="live"')
    counts[isLive ? 'live' : 'others'] += Number(value)
  }
  return counts
}
