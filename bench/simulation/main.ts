/**
 * How many upstream calls each partition mode costs, in one process and in several: prints the tables, and writes
 * them and a chart into docs/.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { replaceGenerated } from '../shared/generated.ts'
import { drawChart } from './chart.ts'
import { formatReport, type Result } from './report.ts'
import { formatReplicas, type ReplicasResult, replicaCounts } from './report-replicas.ts'
import { modes, simulate } from './run.ts'
import { type Scenario, scriptedHour } from './traffic.ts'

const page = new URL('../../docs/partitions.md', import.meta.url)
const scalingPage = new URL('../../docs/scaling.md', import.meta.url)
const chart = new URL('../../docs/partitions.svg', import.meta.url)

async function simulateModes(scenario: Scenario, refreshAheadMs: number): Promise<Result[]> {
  const results: Result[] = []
  for (const mode of modes) {
    const totals = await simulate(scenario, { mode, refreshAheadMs })
    results.push({ scenario, mode, refreshAheadMs, totals })
  }
  return results
}

async function simulateReplicas(scenario: Scenario): Promise<ReplicasResult[]> {
  const results: ReplicasResult[] = []
  for (const mode of modes) {
    for (const replicas of replicaCounts) {
      const alone = await simulate(scenario, { mode, refreshAheadMs: 0, replicas })
      const shared = await simulate(scenario, { mode, refreshAheadMs: 0, replicas, shared: true })
      results.push({ mode, replicas, alone, shared })
    }
  }
  return results
}

const results = [...(await simulateModes(scriptedHour, 0)), ...(await simulateModes(scriptedHour, 5_000))]
const busier: Result[] = []
for (const clients of [300, 1_000, 3_000, 10_000]) {
  busier.push(...(await simulateModes({ ...scriptedHour, clients, durationMs: 600_000 }, 0)))
}

const report = formatReport(results, busier)
writeFileSync(page, replaceGenerated(readFileSync(page, 'utf8'), report))
writeFileSync(chart, drawChart(results))
process.stdout.write(report)

const replicasReport = formatReplicas(await simulateReplicas(scriptedHour))
writeFileSync(scalingPage, replaceGenerated(readFileSync(scalingPage, 'utf8'), replicasReport))
process.stdout.write(`\n${replicasReport}`)
