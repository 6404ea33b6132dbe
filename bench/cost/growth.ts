/**
 * Whether a hit, an order and a miss cost the same with more quotes in cache and ledger, more connections, and more
 * replicas: `npm run build && npx tsx bench/cost/growth.ts [--only quotes,connections,replicas]`.
 */
import { parseArgs } from 'node:util'
import { Redis } from 'ioredis'
import { sealLine } from '../../src/memory/records.ts'
import { fromBackend } from '../compare/cases/case.ts'
import type { Column } from '../compare/results.ts'
import {
  headerLines,
  newQuotes,
  orderBodyOf,
  orders,
  quoteTarget,
  quoteTargetOf,
} from '../shared/backend-requests.ts'
import { gateway } from '../shared/contender.ts'
import { builtProgram, machineAsText, pinLoad } from '../shared/machine.ts'
import { RawConnection, requestText } from '../shared/raw-client.ts'
import { openStage, type Placed, stopAll } from '../shared/stage.ts'
import { startStore } from '../shared/store.ts'
import { compared, cpuColumn, inTurns, type Variant } from './in-turns.ts'

const { values: flags } = parseArgs({
  options: {
    only: { type: 'string', default: 'quotes,connections,replicas' },
    quotes: { type: 'string', default: '1000,100000,1000000' },
    connections: { type: 'string', default: '1,100,10000' },
    replicas: { type: 'string', default: '1,3,8' },
    /** Quotes a second that each other replica fetches. */
    calls: { type: 'string', default: '100' },
    rounds: { type: 'string', default: '10' },
    seconds: { type: 'string', default: '2' },
    'port-base': { type: 'string', default: '18500' },
  },
})
const say = (text: string) => process.stderr.write(`${text}\n`)
const print = (text: string) => process.stdout.write(`${text}\n\n`)
const how = { rounds: Number(flags.rounds), seconds: Number(flags.seconds), say }
const pinned = pinLoad()
const stage = await openStage({
  portBase: Number(flags['port-base']),
  pinned,
  program: builtProgram,
  say,
})
/** Room for a million quotes. */
const NODE_OPTIONS = '--max-old-space-size=4096'

const firstAmount = 10_000_000
/** Of as many quotes, evenly from all. */
const amongAll = (first: number, count: number) => `${first} + (sent * 7919) % ${count}`
const ordered = 1_000

async function withQuotes(count: number): Promise<Variant> {
  const name = `${count.toLocaleString('en')} quotes`
  const entries = { QUOTE_CACHE_ENTRIES: String(count), LEDGER_ENTRIES: String(count) }
  const limits = { QUOTEGATE_TEST_LIMITS: JSON.stringify({ cacheBytes: 2 ** 40 }) }
  const placed = await stage.place(
    gateway(name, { settings: { ...entries, ...limits, NODE_OPTIONS } }),
  )
  let fetched = 0
  while (fetched < count) {
    say(`${name}: ${fetched} are there`)
    const amount = `${firstAmount + fetched - 1} + sent`
    const filled = await placed.load({
      ...fromBackend,
      target: quoteTargetOf('*'),
      amount,
      seconds: 2,
    })
    fetched += filled.requests ?? 0
  }
  const page = await (
    await fetch(`http://127.0.0.1:${placed.operationsPort}/metrics`)
  ).text()
  const gauge = (metric: string) =>
    Number(new RegExp(`^${metric} (.+)$`, 'm').exec(page)?.[1])
  const mebibytes = Math.round(gauge('process_resident_memory_bytes') / 2 ** 20)
  const [cached, known] = [
    gauge('quotegate_entries{in="cache"}'),
    gauge('quotegate_entries{in="ledger"}'),
  ]
  print(
    `${name}: ${cached} in the cache, ${known} in the ledger, ${mebibytes} MiB resident`,
  )
  const first = firstAmount + fetched - count
  const step = Math.max(1, Math.floor(count / ordered))
  const order = { ...orders, body: orderBodyOf('*'.repeat(String(firstAmount).length)) }
  const amongFew = `${first} + (sent % ${Math.min(ordered, count)}) * ${step}`
  return {
    name,
    placed,
    kinds: {
      hit: () => ({ target: quoteTargetOf('*'), amount: amongAll(first, count) }),
      // What differs is whether the processor has the quote in its own caches.
      'hit of a thousand': () => ({ target: quoteTargetOf('*'), amount: amongFew }),
      // Of a few quotes: an order takes the first of its quote out of the cache, and marks it as used.
      order: () => ({ ...order, amount: amongFew }),
      miss: newQuotes,
    },
  }
}

/** At most so many send all the time. The others ask now and then, so that none is closed as idle. */
const active = 100
const everyMs = 40_000

async function withConnections(count: number): Promise<Variant> {
  const name = `${count.toLocaleString('en')} connections`
  const placed = await stage.place(
    gateway(name, {
      settings: { CLIENT_CONNECTIONS: String(count + active), NODE_OPTIONS },
    }),
  )
  const idle: RawConnection[] = []
  for (let opened = active; opened < count; opened += 1)
    idle.push(await RawConnection.open(placed.port))
  let next = 0
  const ask = requestText({ target: quoteTarget, headers: headerLines() })
  const stepMs = 100
  const timer = setInterval(() => {
    const last = next + (idle.length * stepMs) / everyMs
    for (; next < last; next += 1) idle[next % idle.length]?.ask(ask).catch(() => {})
  }, stepMs)
  const connections = Math.min(count, active)
  return {
    name,
    placed,
    kinds: {
      hit: () => ({ target: quoteTarget, connections }),
      order: () => ({ ...orders, connections }),
      miss: () => ({ ...newQuotes(), connections }),
    },
    close() {
      clearInterval(timer)
      for (const connection of idle) connection.close()
    },
  }
}

/** One gateway, and a store in which the records of the others appear. */
async function withReplicas(count: number): Promise<Variant> {
  const name = count === 1 ? '1 replica' : `${count} replicas`
  const store = await startStore()
  const placed = await stage.place(
    gateway(name, { settings: { VALKEY_URL: store.url, NODE_OPTIONS } }),
  )
  const redis = new Redis(store.url)
  await placed.load({ ...fromBackend, ...newQuotes(), seconds: 1 })
  const [key = ''] = await redis.keys('quotegate:journal:*')
  const [[, [, text = '']] = ['', []]] = await redis.xrevrange(key, '+', '-', 'COUNT', 1)
  const [, ...members] = JSON.parse(text)
  let written = 0
  const stepMs = 20
  const timer = setInterval(() => {
    const records = redis.pipeline()
    for (
      let times = 0;
      times < ((count - 1) * Number(flags.calls) * stepMs) / 1_000;
      times += 1
    ) {
      // A quote of its own, by the place that records.ts gives its id.
      members[4] = `of-another-replica-${written++}`
      records.xadd(key, '*', 'r', sealLine([members[0], Date.now(), ...members.slice(2)]))
    }
    void records.exec()
  }, stepMs)
  const commands = async () =>
    Number(/total_commands_processed:(\d+)/.exec(await redis.info('stats'))?.[1])
  const load: Placed['load'] = async (asked) => {
    const before = { commands: await commands(), written }
    const figures = await store.withCpu(() => placed.load(asked))
    const own = (await commands()) - before.commands - (written - before.written)
    return { ...figures, storeCommands: own / (figures.requests ?? Number.NaN) }
  }
  const kinds = {
    hit: () => ({ target: quoteTarget }),
    order: () => orders,
    miss: newQuotes,
  }
  const close = async () => {
    clearInterval(timer)
    redis.disconnect()
    await store.end()
  }
  return { name, placed: { ...placed, load }, kinds, close }
}

async function report(
  which: 'quotes' | 'connections' | 'replicas',
  make: (count: number) => Promise<Variant>,
  more: readonly Column[] = [],
): Promise<void> {
  if (!flags.only.split(',').includes(which)) return
  const variants: Variant[] = []
  for (const count of flags[which].split(',').map(Number))
    variants.push(await make(count))
  const measured = await inTurns(variants, how)
  for (const column of [cpuColumn, ...more]) print(compared(measured, column))
  for (const { close } of variants) await close?.()
  await stopAll(variants.map(({ placed }) => placed))
}

print(
  `${machineAsText(pinned)}; ${how.rounds} rounds of ${how.seconds} s, medians with the lowest and highest.`,
)
await report('quotes', withQuotes)
await report('connections', withConnections)
await report('replicas', withReplicas, [
  {
    figure: 'storeCommands',
    title: "commands of the replica's that the store ran a request",
    digits: 2,
  },
  {
    figure: 'storeMicros',
    title: 'processor time of the store, with the records of all, µs a request',
    digits: 0,
  },
])
await stage.close()
process.exit(0)
