import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { appHeaders, headerLines } from '../../shared/backend-requests.ts'
import { gateway } from '../../shared/contender.ts'
import { type Figures, loadServer } from '../../shared/load-server.ts'
import { benchDirectory } from '../../shared/machine.ts'
import { RawConnection, requestText } from '../../shared/raw-client.ts'
import { type Placed, type Stage, stopAll } from '../../shared/stage.ts'
import { checkHit } from '../check-answers.ts'
import { interleave } from '../rounds.ts'
import { type BenchCase, type CaseContext, type Loadable, measureWarm } from './case.ts'

const counted = (quotes: number) => `${quotes.toLocaleString('en')} quotes`
const sizes = (quick: boolean) => (quick ? [1_000, 20_000] : [1_000, 100_000, 1_000_000])

/** The memory of a cached quote, and whether many quotes slow the gateway down. */
export const quoteStore: BenchCase = async (context) => [
  await storeAlone(context),
  await wholeGateway(context),
]

const run = promisify(execFile)

async function storeAlone({ stage, quick, rounds, progress }: CaseContext) {
  const core = stage.options.pinned?.server
  const variants = [1_000, 100_000, 1_000_000].slice(0, quick ? 2 : 3).map((quotes) => ({
    name: counted(quotes),
    async measure(): Promise<Figures> {
      const script = join(benchDirectory, 'compare', 'store.ts')
      const line = [process.execPath, '--expose-gc', '--import', 'tsx', script, String(quotes)]
      const [command = '', ...rest] = core === undefined ? line : ['taskset', '-c', String(core), ...line]
      return JSON.parse((await run(command, rest)).stdout) as Figures
    },
  }))
  return {
    id: 'store',
    title: 'the memory store by itself',
    columns: [
      { figure: 'heapBytes', title: 'bytes of heap a quote', digits: 0 },
      { figure: 'outsideBytes', title: 'outside the heap', digits: 0 },
      { figure: 'getNanos', title: 'ns a look-up', digits: 0 },
      { figure: 'setNanos', title: 'ns a quote put in', digits: 0 },
    ],
    rows: await interleave(variants, rounds, progress),
    promises: [
      {
        what: 'bytes of heap a cached quote',
        figure: 'heapBytes',
        of: counted(100_000),
        bound: 560,
        is: 'at most' as const,
      },
    ],
  }
}

async function wholeGateway(context: CaseContext) {
  const { stage, quick, progress } = context
  const loadables: Loadable[] = []
  const placed: Placed[] = []
  for (const quotes of sizes(quick)) {
    const settings = {
      QUOTE_CACHE_ENTRIES: String(quotes * 2),
      QUOTEGATE_TEST_LIMITS: JSON.stringify({ cacheBytes: 4e9 }),
      LEDGER_ENTRIES: '1000',
    }
    const one = await stage.place(gateway(counted(quotes), { settings }))
    placed.push(one)
    await fill(one, quotes, stage, progress)
    // At random, so that a look-up does not find its quote in the processor's caches.
    const load = {
      target: '/v3/pairs/ETH_USDC/quotes?amount=*',
      amount: `math.random(${quotes})`,
      headers: appHeaders,
      connections: 64,
    }
    loadables.push({
      name: one.contender.name,
      load: (seconds) => loadServer(one, { ...load, seconds }),
    })
  }
  const rows = await measureWarm(loadables, context)
  await stopAll(placed)
  const smallest = counted(1_000)
  const largest = rows.at(-1)?.name ?? smallest
  return {
    id: 'many-quotes',
    title: 'cached hit, any of many quotes, 64 connections',
    columns: [
      { figure: 'requestsPerSecond', title: 'requests/s', digits: 0 },
      { figure: 'cpuMicros', title: 'CPU µs a request', digits: 1 },
      { figure: 'p99Ms', title: 'p99 ms', digits: 2 },
    ],
    rows,
    promises: [
      {
        what: 'throughput with the largest number of quotes over the smallest',
        figure: 'requestsPerSecond',
        of: largest,
        over: smallest,
        bound: 0.7,
        is: 'at least' as const,
      },
    ],
  }
}

async function fill(
  placed: Placed,
  quotes: number,
  stage: Stage,
  progress: (text: string) => void,
): Promise<void> {
  await checkHit(placed, stage)
  let next = 1
  const fillFrom = async (connection: RawConnection): Promise<void> => {
    while (next <= quotes) {
      const amount = next++
      if (amount % 10_000 === 0)
        progress(`filling the cache: ${amount.toLocaleString('en')} of ${counted(quotes)}`)
      const target = `/v3/pairs/ETH_USDC/quotes?amount=${amount}`
      const { status } = await connection.ask(requestText({ target, headers: headerLines(amount) }))
      if (status !== 200) throw new Error(`status ${status} while the cache was filled`)
    }
    connection.close()
  }
  const connections = await Promise.all(Array.from({ length: 64 }, () => RawConnection.open(placed.port)))
  await Promise.all(connections.map(fillFrom))
}
