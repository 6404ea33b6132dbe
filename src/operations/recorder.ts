import type { History } from './history.ts'
import { createOutages, type Outage } from './outages.ts'
import { createEvents, type SeenEvent } from './seen-events.ts'
import type { OperationsView } from './view.ts'

/** Keeps what the console shows of the past, whether a console is open or not. */
export interface Recorder {
  readonly history: History
  /** The clock by which outages and events are dated. */
  nowMs(): number
  /** Looks for outages now, not at the next second. */
  look(): void
  outages(): { readonly current: readonly Outage[]; readonly past: readonly Outage[] }
  eventsAfter(id: number): readonly SeenEvent[]
  noteDrop(quotes: number): void
  stop(): void
}

export interface RecorderOptions {
  view: Pick<OperationsView, 'version' | 'counts' | 'subjects' | 'sandbox'>
  history: History
  nowMs(): number
}

const tickMs = 1_000

export function createRecorder({ view, history, nowMs }: RecorderOptions): Recorder {
  const events = createEvents(nowMs)
  const outages = createOutages(view.subjects, { nowMs, events })
  let faults = faultsNow()
  events.add('note', `start of version ${view.version}`)
  // A gateway in a test must not keep its process alive.
  const timer = setInterval(tick, tickMs).unref()

  function faultsNow(): Readonly<Record<string, unknown>> {
    return { ...view.sandbox?.faults() }
  }

  function noteFaults(): void {
    const now = faultsNow()
    const changed = Object.keys(now).filter((name) => String(now[name]) !== String(faults[name]))
    if (changed.length > 0) {
      const texts = changed.map((name) => `${name} ${faults[name]} to ${now[name]}`)
      events.add('note', `sandbox: ${texts.join(', ')}`)
    }
    faults = now
  }

  function tick(): void {
    history.tick(view.counts())
    outages.look()
    noteFaults()
  }

  return {
    history,
    nowMs,
    look: outages.look,
    outages() {
      outages.look()
      return outages
    },
    eventsAfter: events.after,
    noteDrop(quotes) {
      if (quotes > 0) events.add('note', `${quotes === 1 ? 'a quote was' : `${quotes} quotes were`} dropped`)
    },
    stop: () => clearInterval(timer),
  }
}
