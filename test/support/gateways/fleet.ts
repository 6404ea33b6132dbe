import { onTestFinished } from 'vitest'
import { ask } from '../clients/quotes.ts'
import { pause } from './between.ts'
import { type RunningProgram, startListening } from './program.ts'

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
    onTestFinished(() => this.end())
  }

  get running(): Replica[] {
    return this.all.filter(({ killedAtMs }) => killedAtMs === undefined)
  }

  /** Resolves once it can be asked. */
  async start(name: string, storeUrl: string): Promise<Replica> {
    const program = await startListening({
      VALKEY_URL: storeUrl,
      // Each simulated user has an address.
      TRUST_PROXY: 'loopback',
      CLIENT_IP_HEADER: 'x-forwarded-for',
      ...this.#settings,
    })
    const { url, operationsUrl } = program
    while ((await ask(operationsUrl, { path: '/readyz' })).status !== 200) await pause(20)
    const replica: Replica = {
      name,
      url,
      program,
      readyAtMs: Date.now(),
      killedAtMs: undefined,
    }
    this.all.push(replica)
    return replica
  }

  end(): void {
    for (const { program } of this.all) program.child.kill('SIGKILL')
  }

  /** As kill -9 does. */
  async kill(replica: Replica): Promise<void> {
    replica.killedAtMs = Date.now()
    replica.program.child.kill('SIGKILL')
    await replica.program.exit
  }
}

/** When this process got no processor for so long, a replica may not have got any either, and its store looked slow to it. */
const busyMs = 100

/** Whether the machine was too busy for the store's timeouts, by which replicas rightly let late orders pass. */
export class BusyMachine {
  #tickedAtMs = performance.now()
  /** The longest that a timer of this process was late. */
  #latestMs = 0

  constructor() {
    const timer = setInterval(() => this.#tick(), 5)
    onTestFinished(() => clearInterval(timer))
  }

  get wasBusy(): boolean {
    return this.#latestMs > busyMs
  }

  #tick(): void {
    const nowMs = performance.now()
    this.#latestMs = Math.max(this.#latestMs, nowMs - this.#tickedAtMs)
    this.#tickedAtMs = nowMs
  }
}
