import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { quoteProbe } from './backend-requests.ts'
import type { Contender } from './contender.ts'
import { benchDirectory, type Pinning } from './machine.ts'
import { askOnce } from './raw-client.ts'
import { refuseBusyPort, startServer } from './server-process.ts'
import { type Load, wrk } from './wrk.ts'

export interface StageOptions {
  portBase: number
  pinned: Pinning | undefined
  /** The built gateway. */
  program: string
  say(text: string): void
}

/** Named figures of one contender in one round. */
export type Figures = Record<string, number>

export interface Placed {
  contender: Contender
  port: number
  operationsPort: number
  /** Loads the server: its throughput, waits and processor time. */
  load(load: Omit<Load, 'port'>): Promise<Figures>
  stop(): Promise<void>
}

export type Stage = Awaited<ReturnType<typeof openStage>>

/** The upstream and the servers in front of it, each with its own ports. */
export async function openStage(options: StageOptions) {
  const directory = mkdtempSync(join(tmpdir(), 'quotegate-bench-'))
  process.on('exit', () => rmSync(directory, { recursive: true, force: true }))
  const upstreamPort = options.portBase
  const line = [join(benchDirectory, 'shared', 'upstream.mjs'), String(upstreamPort)]
  const upstream = await startServer(
    { command: process.execPath, arguments: line },
    {
      name: 'the upstream',
      core: options.pinned?.load,
      port: upstreamPort,
      probe: { target: '/calls' },
    },
  )
  const quoteBody = (await askOnce(upstreamPort, quoteProbe)).body.toString('latin1')
  const answerFile = join(directory, 'answer.json')
  writeFileSync(answerFile, quoteBody, 'latin1')
  let nextPort = options.portBase + 1

  async function place(contender: Contender): Promise<Placed> {
    const port = nextPort++
    const operationsPort = nextPort++
    await refuseBusyPort(operationsPort)
    const own = join(directory, String(port))
    const setting = {
      port,
      operationsPort,
      upstreamPort,
      directory: own,
      answerFile,
      program: options.program,
    }
    const server = await startServer(contender.launch(setting), {
      name: contender.name,
      core: options.pinned?.server,
      port,
      probe: quoteProbe,
    })
    return {
      contender,
      port,
      operationsPort,
      async load(load) {
        const before = server.cpuSeconds()
        const { requests, requestsPerSecond, p50Ms, p99Ms } = await wrk({ ...load, port })
        const cpuMicros = ((server.cpuSeconds() - before) * 1e6) / requests
        return {
          requests,
          requestsPerSecond,
          requestsPerCpuSecond: 1e6 / cpuMicros,
          cpuMicros,
          p50Ms,
          p99Ms,
        }
      },
      stop: () => server.stop(),
    }
  }

  return {
    upstreamPort,
    /** Each contender has a folder in it, named by its port. */
    directory,
    /** The bytes of the quote that all servers serve. */
    quoteBody,
    place,
    async placeAll(contenders: readonly Contender[]) {
      const placed: Placed[] = []
      for (const contender of contenders) placed.push(await place(contender))
      return placed
    },
    close: () => upstream.stop(),
  }
}

export async function stopAll(placed: readonly Placed[]): Promise<void> {
  await Promise.all(placed.map((one) => one.stop()))
}
