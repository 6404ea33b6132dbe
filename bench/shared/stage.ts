import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { quoteProbe } from './backend-requests.ts'
import type { Contender } from './contender.ts'
import { benchDirectory, givingWay, type Pinning } from './machine.ts'
import { askOnce } from './raw-client.ts'
import { refuseBusyPort, type ServerProcess, startServer } from './server-process.ts'

export interface StageOptions {
  portBase: number
  pinned: Pinning | undefined
  /** The built gateway. */
  program: string
  /** The upstream runs only while the load generator, which shares its core, waits. */
  upstreamGivesWay?: boolean
  say(text: string): void
}

export interface Placed {
  contender: Contender
  process: ServerProcess
  port: number
  operationsPort: number
}

/** The upstream and the servers in front of it, each with its own ports. */
export interface Stage {
  readonly options: StageOptions
  readonly upstreamPort: number
  /** The bytes of the quote that all servers serve. */
  readonly quoteBody: string
  place(contender: Contender): Promise<Placed>
  placeAll(contenders: readonly Contender[]): Promise<Placed[]>
  close(): Promise<void>
}

export async function openStage(options: StageOptions): Promise<Stage> {
  const directory = mkdtempSync(join(tmpdir(), 'quotegate-bench-'))
  process.on('exit', () => rmSync(directory, { recursive: true, force: true }))
  const upstreamPort = options.portBase
  const line = [process.execPath, join(benchDirectory, 'shared', 'upstream.mjs'), String(upstreamPort)]
  const [command, ...rest] = givingWay(line, options.upstreamGivesWay ? options.pinned : undefined)
  const upstream = await startServer(
    { command, arguments: rest },
    { name: 'the upstream', core: options.pinned?.load, port: upstreamPort, probe: { target: '/calls' } },
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
    return { contender, process: server, port, operationsPort }
  }

  return {
    options,
    upstreamPort,
    quoteBody,
    place,
    async placeAll(contenders) {
      const placed: Placed[] = []
      for (const contender of contenders) placed.push(await place(contender))
      return placed
    },
    close: () => upstream.stop(),
  }
}

export async function stopAll(placed: readonly Placed[]): Promise<void> {
  await Promise.all(placed.map(({ process: server }) => server.stop()))
}
