import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { environment } from '../../../test/support/machine/environment.ts'

const program = fileURLToPath(new URL('../../../dist/main.js', import.meta.url))

export interface AttackedGateway {
  url: string
  /** The exit code, once it has ended. */
  readonly exit: { code: number | null; signal: string | null } | undefined
  readonly residentBytes: number
  /** The most that was ever resident. */
  readonly peakBytes: number
  /** How many descriptors it may open. */
  readonly descriptors: number
  stop(): Promise<void>
}

/** The built gateway under the heap limit of the Kubernetes files, with nothing else changed but where its upstreams are. */
export async function startAttackedGateway(
  upstreamUrl: string,
): Promise<AttackedGateway> {
  if (!existsSync(program)) throw new Error('dist/main.js is missing: npm run build')
  const child = spawn(process.execPath, ['--max-old-space-size=512', program], {
    env: {
      PATH: environment().PATH,
      PORT: '0',
      ADMIN_PORT: '0',
      LOG_FORMAT: 'json',
      LOG_LEVEL: 'info',
      SWAP_BASE_URL: upstreamUrl,
      PAYMENTS_BASE_URL: upstreamUrl,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let exit: AttackedGateway['exit']
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-2_000)
  })
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      exit = { code, signal }
      if (code !== 0 && signal !== 'SIGTERM') process.stdout.write(`${said}\n`)
      resolve()
    })
  })
  const url = await new Promise<string>((resolve, reject) => {
    child.once('exit', (code) =>
      reject(new Error(`the gateway ended at its start with code ${code}: ${said}`)),
    )
    createInterface({ input: child.stdout }).on('line', (line) => {
      // Only until it listens: from then on each line is one of its many refusals.
      const trafficUrl =
        line.includes('trafficUrl') &&
        (JSON.parse(line) as { trafficUrl?: string }).trafficUrl
      if (trafficUrl) resolve(trafficUrl)
    })
  })
  let lastStatus = ''
  const field = (name: string) => {
    if (exit === undefined)
      lastStatus = readFileSync(`/proc/${child.pid}/status`, 'utf8') || lastStatus
    return (
      Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(lastStatus)?.[1] ?? 0) * 1024
    )
  }
  const limits = readFileSync(`/proc/${child.pid}/limits`, 'utf8')
  return {
    url,
    get exit() {
      return exit
    },
    get residentBytes() {
      return field('VmRSS')
    },
    get peakBytes() {
      return field('VmHWM')
    },
    descriptors: Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? 1_024),
    async stop() {
      if (exit === undefined) child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), 40_000)
      await ended
      clearTimeout(timer)
    },
  }
}
