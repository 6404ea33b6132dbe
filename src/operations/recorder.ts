import type { Counts } from './history.ts'
import type { LiveStream } from './live-stream.ts'
import type { OperationsParts } from './parts.ts'

const tickMs = 1_000

/** Once a second: keeps what the console shows of the past, whether a console is open or not, and sends what is new. */
export class Recorder {
  readonly #parts: OperationsParts
  readonly #live: Pick<LiveStream, 'tick'>
  readonly #timer: NodeJS.Timeout
  #faults: Readonly<Record<string, unknown>>

  constructor(parts: OperationsParts, live: Pick<LiveStream, 'tick'>) {
    this.#parts = parts
    this.#live = live
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
    this.#live.tick()
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
