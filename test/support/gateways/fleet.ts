import { readFileSync } from 'node:fs'
import { onTestFinished } from 'vitest'
import { ask } from '../clients/quotes.ts'
import { pause } from './between.ts'
import { type RunningProgram, startProgram } from './program.ts'

export interface Replica {
  readonly name: string
  readonly url: string
  readonly program: RunningProgram
  /** From when on it gets requests. */
  readonly readyAtMs: number
  /** When it was killed; undefined: it runs. */
  killedAtMs: number | undefined
}

/** Replicas of the built program, each a process of its own, that share a store. */
export class Fleet {
  readonly #settings: Record<string, string>
  /** All that ever ran. */
  readonly all: Replica[] = []

  constructor(settings: Record<string, string>) {
    this.#settings = settings
    onTestFinished(() => {
      for (const { program } of this.all) program.child.kill('SIGKILL')
    })
  }

  get running(): Replica[] {
    return this.all.filter(({ killedAtMs }) => killedAtMs === undefined)
  }

  /** Resolves once it can be asked. */
  async start(name: string, storeUrl: string): Promise<Replica> {
    const program = startProgram([], {
      PORT: '0',
      ADMIN_PORT: '0',
      LOG_FORMAT: 'json',
      VALKEY_URL: storeUrl,
      // Of each simulated client its own.
      TRUST_PROXY: 'loopback',
      CLIENT_IP_HEADER: 'x-forwarded-for',
      ...this.#settings,
    })
    const [, url = '', operationsUrl = ''] = await program.says(
      /"trafficUrl":"(.+?)","operationsUrl":"(.+?)"/,
    )
    while ((await ask(operationsUrl, { path: '/readyz' })).status !== 200) await pause(20)
    const replica: Replica = { name, url, program, readyAtMs: Date.now(), killedAtMs: undefined }
    this.all.push(replica)
    return replica
  }

  /** As kill -9 does. */
  async kill(replica: Replica): Promise<void> {
    replica.killedAtMs = Date.now()
    replica.program.child.kill('SIGKILL')
    await replica.program.exit
  }
}

const lookEveryMs = 50
const tickEveryMs = 5
/** What a wait for a processor between two looks, or within `spanMs`, may do to an answer of the store, and so to a replica. */
const shortWait = { waitedMs: 20, cautiousForMs: 300 }
const longWait = { waitedMs: 120, cautiousForMs: 2_500 }
const spanMs = 300

/**
 * When this machine was too busy for the store's timeouts: then a replica rightly takes its store for slow, and lets late
 * orders pass for a while.
 */
export class BusyMachine {
  readonly #totals = new Map<string, number>()
  readonly #waits: { atMs: number; waitedMs: number }[] = []
  #tickedAtMs = performance.now()
  #lookedAtMs = this.#tickedAtMs
  /** Of a timer of this process, since the last look. */
  #latestMs = 0

  constructor() {
    const timer = setInterval(() => this.#tick(), tickEveryMs)
    onTestFinished(() => clearInterval(timer))
  }

  /** Whether the system says how long its processes waited: Linux does. If not, they may have waited at any time. */
  get tells(): boolean {
    return this.#totals.size > 0
  }

  wasBusyBefore(atMs: number): boolean {
    if (!this.tells) return true
    const until = atMs + lookEveryMs
    const waits = this.#waits.filter((wait) => wait.atMs > atMs - longWait.cautiousForMs && wait.atMs < until)
    return waits.some((wait, index) => {
      if (wait.waitedMs > shortWait.waitedMs && wait.atMs > atMs - shortWait.cautiousForMs) return true
      const span = waits.slice(index).filter((later) => later.atMs < wait.atMs + spanMs)
      return span.reduce((sum, { waitedMs }) => sum + waitedMs, 0) > longWait.waitedMs
    })
  }

  #tick(): void {
    const nowMs = performance.now()
    this.#latestMs = Math.max(this.#latestMs, nowMs - this.#tickedAtMs - tickEveryMs)
    this.#tickedAtMs = nowMs
    if (nowMs - this.#lookedAtMs < lookEveryMs) return
    this.#lookedAtMs = nowMs
    // An answer waits for the store, perhaps for a line of this process, and for the replica.
    const waits = this.#processes().map((pid) => this.#waitOf(pid))
    const [first = 0, second = 0] = [this.#latestMs, ...waits].sort((left, right) => right - left)
    this.#waits.push({ atMs: Date.now(), waitedMs: first + second })
    this.#latestMs = 0
  }

  /** This one, its stores and its replicas. */
  #processes(): string[] {
    const { pid } = process
    const children = readOrNothing(`/proc/${pid}/task/${pid}/children`).split(' ')
    return [String(pid), ...children].filter((id) => id !== '')
  }

  /** For how long it was ready to run and did not, since the last look. */
  #waitOf(pid: string): number {
    const [, waitedNs] = readOrNothing(`/proc/${pid}/schedstat`).split(' ')
    if (waitedNs === undefined) return 0
    const totalMs = Number(waitedNs) / 1e6
    const before = this.#totals.get(pid) ?? totalMs
    this.#totals.set(pid, totalMs)
    return totalMs - before
  }
}

function readOrNothing(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
