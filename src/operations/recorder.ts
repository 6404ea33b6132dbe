import type { Counts } from './history.ts'
import type { LiveStream } from './live-stream.ts'
import type { OperationsParts } from './parts.ts'

const tickMs = 1_000

/**
 * Once a second: keeps what the console shows of the past, whether a console is open or not, and sends what is new.
 * Returns what stops it.
 */
export function startRecorder(parts: OperationsParts, live: LiveStream): () => void {
  const { history, outages, recent, sandbox, version } = parts
  let faults: Record<string, unknown> = { ...sandbox?.faults() }
  recent.addEvent('note', `start of version ${version}`)
  const timer = setInterval(() => {
    history.tick(countsOf(parts))
    outages.look()
    noteFaults()
    live.tick()
  }, tickMs)
  // A gateway in a test must not keep its process alive.
  timer.unref()
  return () => clearInterval(timer)

  function noteFaults(): void {
    const before = faults
    faults = { ...sandbox?.faults() }
    const changed = Object.keys(faults).filter(
      (name) => String(faults[name]) !== String(before[name]),
    )
    const texts = changed.map((name) => `${name} ${before[name]} to ${faults[name]}`)
    if (texts.length > 0) recent.addEvent('note', `sandbox: ${texts.join(', ')}`)
  }
}

function countsOf({ metrics, upstreams, exchanges }: OperationsParts): Counts {
  const { lookups, orders } = metrics.quoteCounts()
  const { hit, shared, collapsed } = lookups
  return {
    requests: metrics.requestCounts().requests,
    quotes: total(Object.values(lookups)),
    hits: hit,
    saved: hit + shared + collapsed,
    errors: total(Object.values(upstreams).map((upstream) => upstream?.failures ?? 0)),
    refused: orders['refused-expired'] + orders['refused-unknown'],
    expired: orders['refused-expired'],
    orders: total(Object.values(orders)),
    matched:
      orders['forwarded-live'] + orders['reported-expired'] + orders['refused-expired'],
    unknown: orders['forwarded-unknown'],
    inFlight: exchanges.inFlight,
  }
}

function total(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0)
}
