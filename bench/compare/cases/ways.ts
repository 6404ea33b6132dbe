import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  keyedOrders,
  newQuotes,
  orders,
  passTarget,
  postsOf,
  quoteTarget,
} from '../../shared/backend-requests.ts'
import { gateway, gatewayName } from '../../shared/contender.ts'
import { type Figures, type Placed, stopAll } from '../../shared/stage.ts'
import { startStore } from '../../shared/store.ts'
import { checkOrder, checkPassThrough, jsonOf } from '../check-answers.ts'
import type { Row } from '../results.ts'
import { type BenchCase, fromBackend, measureWarm, throughputColumns } from './case.ts'

interface Way {
  name: string
  /** What it may cost, in small GETs. */
  bound?: number
  at?: 'orders' | 'a folder' | 'a store'
  load(): Partial<Parameters<Placed['load']>[0]> & { target: string }
  isOrder?: true
}

const measureName = 'small GET'
const ways: readonly Way[] = [
  { name: measureName, load: () => ({ target: passTarget }) },
  { name: 'POST of 1 KiB', load: () => postsOf(jsonOf(1_024)) },
  { name: 'hit', load: () => ({ target: quoteTarget }) },
  { name: 'miss', bound: 1.8, load: newQuotes },
  { name: 'miss with a folder', bound: 2, at: 'a folder', load: newQuotes },
  { name: 'miss with a store', bound: 2.6, at: 'a store', load: newQuotes },
  { name: 'order', bound: 1.5, at: 'orders', load: () => orders, isOrder: true },
  { name: 'order with a key', at: 'orders', load: keyedOrders, isOrder: true },
  { name: 'order with a store', at: 'a store', load: () => orders, isOrder: true },
]

/**
 * What each way through the gateway costs it, as a multiple of a small GET that it relays in the same round. The ledger
 * still knows a quote after its first order, so the orders after it are judged alike.
 */
export const everyWay: BenchCase = async (context) => {
  const { stage, otherBuilds } = context
  const store = await startStore()
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-bench-state-'))
  const builds = [gateway(gatewayName), ...otherBuilds]
  const placed: Placed[] = []
  const loadables = []
  for (const [index, { name, build }] of builds.entries()) {
    const settings = {
      '': {},
      // An order uses its quote up, and what asks for it later does not find it in memory.
      orders: {},
      'a folder': { STATE_DIRECTORY: join(folder, String(index)) },
      'a store': { VALKEY_URL: store.url, VALKEY_KEY_PREFIX: `build-${index}:` },
    }
    const gateways = new Map<string, Placed>()
    for (const [how, own] of Object.entries(settings)) {
      const one = await stage.place(gateway(`${name} ${how}`, { settings: own, build }))
      await checkPassThrough(one.contender.name, one.port)
      if (how !== '') await checkOrder(one)
      gateways.set(how, one)
      placed.push(one)
    }
    for (const way of ways) {
      const one = gateways.get(way.at ?? '') as Placed
      const load = (seconds: number) =>
        one.load({ ...fromBackend, ...way.load(), seconds })
      const checked = way.isOrder
        ? (seconds: number) => withLiveOrders(one, () => load(seconds))
        : load
      const measured = (seconds: number) =>
        store.withCpu(() => checked(seconds), way.at === 'a store')
      loadables.push({ name: `${name}, ${way.name}`, load: measured })
    }
  }
  const rows = await measureWarm(loadables, context)
  await stopAll(placed)
  await store.end()
  rmSync(folder, { recursive: true })
  for (const { name } of builds) inSmallGets(rows, name)
  const rowOf = (way: Way, build = gatewayName) => `${build}, ${way.name}`
  const promise = { what: 'processor time', is: 'at most' } as const
  return [
    {
      title: 'every way through the gateway, 64 connections',
      columns: [
        { figure: 'multiple', title: 'small GETs', digits: 2 },
        ...throughputColumns,
        { figure: 'storeMicros', title: 'store, CPU µs a request', digits: 1 },
      ],
      rows,
      promises: ways.flatMap((way) => [
        {
          ...promise,
          what: `${way.name}, in small GETs,`,
          figure: 'multiple',
          of: rowOf(way),
          bound: way.bound,
        },
        ...otherBuilds.map(({ name }) => ({
          ...promise,
          what: `${way.name}, processor time,`,
          figure: 'cpuMicros',
          of: rowOf(way),
          over: rowOf(way, name),
        })),
      ]),
    },
  ]
}

/** Round by round, because a slow minute of the machine slows all ways. */
function inSmallGets(rows: readonly Row[], build: string): void {
  const measure = rows.find(({ name }) => name === `${build}, ${measureName}`)
  for (const { rounds } of rows.filter(({ name }) => name.startsWith(`${build}, `))) {
    for (const [round, figures] of rounds.entries())
      figures.multiple =
        (figures.cpuMicros ?? Number.NaN) /
        (measure?.rounds[round]?.cpuMicros ?? Number.NaN)
  }
}

/** An order that is not judged `live` takes another way and would be another figure. */
async function withLiveOrders(
  placed: Placed,
  load: () => Promise<Figures>,
): Promise<Figures> {
  const figures = await load()
  const page = await (
    await fetch(`http://127.0.0.1:${placed.operationsPort}/metrics`)
  ).text()
  const counted = page.match(/^quotegate_float_orders_total\{.*\} [1-9]\d*$/gm) ?? []
  const others = counted.filter(
    (line) => !/decision="forwarded".*reason="live"/.test(line),
  )
  if (counted.length === 0 || others.length > 0)
    throw new Error(
      `${placed.contender.name}: not all orders were forwarded as live: ${others}`,
    )
  return figures
}
