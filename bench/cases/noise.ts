import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { appHeaders, bareName, gateway, gatewayName, quoteTarget } from '../contenders/contender.ts'
import { checkHit } from '../harness/check-answers.ts'
import { benchDirectory } from '../harness/machine.ts'
import { type Figures, interleave } from '../harness/rounds.ts'
import { type Placed, stopAll } from '../harness/stage.ts'
import { type BenchCase, loadServer } from './case.ts'

const noises = {
  scrape: 'a scrape every 200 ms',
  evictions: 'an eviction storm, 500 a second',
  pass: '200 pass-through requests a second',
} as const

/** So few that every quote of the storm pushes out another. */
const storeEntries = '1000'
const load = { target: quoteTarget, headers: appHeaders, connections: 64 }

/** Whether hits wait for other work: their p99 while it goes on, next to bare node:http's with none beside it. */
export const noise: BenchCase = async ({ stage, contenders, quick, rounds, seconds, progress }) => {
  const bare = contenders.filter(({ name }) => name === bareName)
  const placed = await stage.placeAll([gateway(gatewayName, { QUOTE_CACHE_ENTRIES: storeEntries }), ...bare])
  for (const one of placed) {
    await checkHit(one, stage)
    if (!quick) await loadServer(one, { ...load, seconds: 2 })
  }
  const variants = placed.map((one) => ({
    name: one.contender.name,
    measure: () => loadServer(one, { ...load, seconds }),
  }))
  const [own] = placed
  for (const [kind, title] of Object.entries(noises)) {
    if (own)
      variants.push({ name: `${gatewayName}, ${title}`, measure: () => loadBeside(own, kind, seconds) })
  }
  const rows = await interleave(variants, rounds, progress)
  await stopAll(placed)
  return [
    {
      id: 'noise',
      title: 'cached hit beside other work, 64 connections',
      columns: [
        { figure: 'p99Ms', title: 'p99 ms', digits: 2 },
        { figure: 'p50Ms', title: 'p50 ms', digits: 2 },
        { figure: 'requestsPerSecond', title: 'hits/s', digits: 0 },
        { figure: 'besideTimes', title: 'other work done', digits: 0 },
      ],
      rows,
      promises: Object.values(noises).map((title) => ({
        what: `p99 of hits beside ${title}`,
        figure: 'p99Ms',
        of: `${gatewayName}, ${title}`,
        over: bareName,
        bound: 1.2,
        is: 'at most' as const,
      })),
    },
  ]
}

async function loadBeside(placed: Placed, kind: string, seconds: number): Promise<Figures> {
  const maker = join(benchDirectory, 'load', 'noise.ts')
  const flags = ['--import', 'tsx', maker, kind, String(placed.port), String(placed.operationsPort)]
  const child: ChildProcess = spawn(process.execPath, flags, { stdio: ['ignore', 'pipe', 'inherit'] })
  let said = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  if (child.stdout) await once(child.stdout, 'data')
  const figures = await loadServer(placed, { ...load, seconds })
  const ended = once(child, 'close')
  child.kill('SIGTERM')
  await ended
  const besideTimes = Number(/done (\d+)/.exec(said)?.[1])
  if (!(besideTimes > 0)) throw new Error(`the work beside (${kind}) was not done: ${said}`)
  return { ...figures, besideTimes }
}
