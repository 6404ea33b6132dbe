import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { askOnce, type RawRequest } from './raw-client.ts'

export interface Launch {
  command: string
  arguments: readonly string[]
  environment?: Record<string, string>
  /** Written before the start: paths and contents. */
  files?: Record<string, string>
}

export interface ServerProcess {
  /** Processor time of all its processes since they began. */
  cpuSeconds(): number
  stop(): Promise<void>
}

const readyWithinMs = 20_000
const stopWithinMs = 3_000
const running = new Set<ChildProcess>()

// However the run ends, it leaves no server behind.
process.on('exit', () => {
  for (const child of running) signalGroup(child, 'SIGKILL')
})
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => process.exit(130))

export async function refuseBusyPort(port: number): Promise<void> {
  const probe = createServer().listen(port, '127.0.0.1')
  await once(probe, 'listening').catch((cause) => {
    const because =
      'the server that listens there would be measured instead; try --port-base'
    throw new Error(`port ${port} is busy: ${because}`, { cause })
  })
  await once(probe.close(), 'close')
}

/** Starts a server on its core and waits until it answers `probe`. */
export async function startServer(
  launch: Launch,
  options: { name: string; core: number | undefined; port: number; probe: RawRequest },
): Promise<ServerProcess> {
  const { name, core, port, probe } = options
  await refuseBusyPort(port)
  for (const [path, content] of Object.entries(launch.files ?? {})) {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, content)
  }
  const line = [launch.command, ...launch.arguments]
  const [command = '', ...rest] =
    core === undefined ? line : ['taskset', '-c', String(core), ...line]
  const beganMs = performance.now()
  const env = {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    ...launch.environment,
  }
  const child = spawn(command, rest, {
    env,
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  running.add(child)
  let complaint = ''
  child.stderr.on('data', (chunk: Buffer) => {
    complaint = `${complaint}${chunk}`.slice(-2_000)
  })
  let ended: string | undefined
  child.once('error', (error) => {
    ended = error.message
  })
  child.once('exit', (code, signal) => {
    ended ??= `ended with ${code ?? signal}`
    running.delete(child)
  })
  for (;;) {
    if (ended !== undefined)
      throw new Error(`${name} ${ended} before it answered: ${complaint}`)
    const answer = await askOnce(port, probe).catch(() => undefined)
    if (answer && answer.status < 500) break
    if (performance.now() - beganMs > readyWithinMs) {
      signalGroup(child, 'SIGKILL')
      throw new Error(`${name} did not answer within ${readyWithinMs} ms: ${complaint}`)
    }
    await wait(2)
  }
  return {
    cpuSeconds: () => cpuSecondsOf(child.pid ?? 0),
    stop: () => stop(child),
  }
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  signalGroup(child, 'SIGTERM')
  const inTime = await Promise.race([
    ended.then(() => true),
    wait(stopWithinMs, false, { ref: false }),
  ])
  if (inTime === false) signalGroup(child, 'SIGKILL')
  await ended
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, signal)
  } catch {
    // Gone already.
  }
}

const ticksPerSecond = 100

/** Of the started process and all others of its session: nginx works in children. */
function cpuSecondsOf(session: number): number {
  let ticks = 0
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      // The name of a process may contain blanks and brackets, so the fields begin after the last bracket.
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      const fields = stat
        .slice(stat.lastIndexOf(')') + 2)
        .split(' ')
        .map(Number)
      if (fields[3] === session) ticks += (fields[11] ?? 0) + (fields[12] ?? 0)
    } catch {
      // It ended while the list was read.
    }
  }
  return ticks / ticksPerSecond
}
