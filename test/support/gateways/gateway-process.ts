import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { environment } from '../machine/environment.ts'
import { environmentWith } from './limits.ts'

export interface GatewayProcess {
  url: string
  operationsUrl: string
  child: ChildProcess
  /** Resident memory now. */
  residentBytes(): number
  /** The most resident memory since `forgetPeak()`. */
  peakBytes(): number
  forgetPeak(): void
}

interface Urls {
  trafficUrl: string
  operationsUrl: string
}

/** A gateway in a process of its own, run from its sources, whose memory can be watched. */
export async function startGatewayProcess(settings: Record<string, string>): Promise<GatewayProcess> {
  const main = fileURLToPath(new URL('../../../src/main.ts', import.meta.url))
  const child = spawn(process.execPath, ['--import', 'tsx', main], {
    env: {
      PATH: environment().PATH,
      PORT: '0',
      ADMIN_PORT: '0',
      LOG_FORMAT: 'json',
      ...environmentWith(settings),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const { trafficUrl: url, operationsUrl } = await new Promise<Urls>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the gateway ended at its start with code ${code}`)))
    createInterface({ input: child.stdout }).on('line', (line) => {
      const { trafficUrl, operationsUrl } = JSON.parse(line) as Partial<Urls>
      if (trafficUrl !== undefined && operationsUrl !== undefined) resolve({ trafficUrl, operationsUrl })
    })
  })
  const field = (name: string) => {
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
    return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) * 1024
  }
  return {
    url,
    operationsUrl,
    child,
    residentBytes: () => field('VmRSS'),
    peakBytes: () => field('VmHWM'),
    // 5: resets the peak to what is resident now (proc_pid_clear_refs(5)).
    forgetPeak: () => writeFileSync(`/proc/${child.pid}/clear_refs`, '5'),
  }
}
