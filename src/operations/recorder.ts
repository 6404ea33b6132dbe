import type { Lookup } from '../events.ts'
import type { FloatOrderDecision } from '../orders/float-order.ts'
import type { Counts, History } from './history.ts'
import type { Outages } from './outages.ts'
import type { Recent } from './recent.ts'
import type { TroubleParts } from './troubles.ts'

export interface RecorderParts {
  readonly version: string
  readonly history: Pick<History, 'tick'>
  readonly outages: Pick<Outages, 'look'>
  readonly recent: Pick<Recent, 'addEvent'>
  readonly sandbox: { faults(): object } | undefined
  readonly exchanges: { readonly inFlight: number }
  readonly upstreams: TroubleParts['upstreams']
  readonly metrics: {
    requestCounts(): { readonly requests: number }
    quoteCounts(): { readonly lookups: Counted<Lookup>; readonly orders: Counted<FloatOrderDecision> }
  }
}

type Counted<Name extends string> = Readonly<Record<Name, number>>

const tickMs = 1_000

/** Keeps what the console shows of the past, once a second, whether a console is open or not. */
export class Recorder {
  readonly #parts: RecorderParts
  readonly #timer: NodeJS.Timeout
  #faults: Readonly<Record<string, unknown>>

  constructor(parts: RecorderParts) {
    this.#parts = parts
    this.#faults = { ...parts.sandbox?.faults() }
    parts.recent.addEvent('note', `start of version ${parts.version}`)
    // A gateway in a test must not keep its process alive.
    this.#timer = setInterval(() => this.#tick(), tickMs).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #tick(): void {
    const { history, outages } = this.#parts
    history.tick(this.#counts())
    outages.look()
    this.#noteFaults()
  }

  #noteFaults(): void {
    const [before, now] = [this.#faults, { ...this.#parts.sandbox?.faults() } as Record<string, unknown>]
    const changed = Object.keys(now).filter((name) => String(now[name]) !== String(before[name]))
    this.#faults = now
    if (changed.length === 0) return
    const texts = changed.map((name) => `${name} ${before[name]} to ${now[name]}`)
    this.#parts.recent.addEvent('note', `sandbox: ${texts.join(', ')}`)
  }

  #counts(): Counts {
    const { metrics, upstreams, exchanges } = this.#parts
    const { lookups, orders } = metrics.quoteCounts()
    const { hit, shared, collapsed } = lookups
    return {
      sums: {
        requests: metrics.requestCounts().requests,
        quotes: total(Object.values(lookups)),
        hits: hit,
        saved: hit + shared + collapsed,
        errors: total(Object.values(upstreams).map((upstream) => upstream?.failures ?? 0)),
        refused: orders['refused-expired'] + orders['refused-unknown'],
        expired: orders['refused-expired'],
        orders: total(Object.values(orders)),
        matched: orders['forwarded-live'] + orders['reported-expired'] + orders['refused-expired'],
        unknown: orders['forwarded-unknown'],
      },
      inFlight: exchanges.inFlight,
    }
  }
}

function total(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0)
}
