import type { Placed } from './stage.ts'
import { type Load, wrk } from './wrk.ts'

/** Named figures of one contender in one round. */
export type Figures = Record<string, number>

/** Loads one server and returns its throughput, waits and processor time. */
export async function loadServer(placed: Placed, load: Omit<Load, 'port'>): Promise<Figures> {
  const before = placed.process.cpuSeconds()
  const { requests, requestsPerSecond, p50Ms, p99Ms } = await wrk({ ...load, port: placed.port })
  const cpuMicros = ((placed.process.cpuSeconds() - before) * 1e6) / requests
  return { requestsPerSecond, requestsPerCpuSecond: 1e6 / cpuMicros, cpuMicros, p50Ms, p99Ms }
}
