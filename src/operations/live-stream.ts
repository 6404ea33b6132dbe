import type { ServerResponse } from 'node:http'
import type { Level } from './access.ts'
import type { Recorder } from './recorder.ts'
import {
  healthOf,
  historyOf,
  type StatusParts,
  shownApplications,
  shownFailures,
  shownOutages,
  shownRefusals,
} from './status.ts'

export interface LiveStream {
  readonly viewers: number
  /** False: there are too many viewers already. */
  join(response: ServerResponse, level: Level): boolean
  close(): void
}

interface Viewer {
  response: ServerResponse
  level: Level
  ticksMissed: number
}

const tickMs = 1_000
const maxViewers = 200
const maxQuotes = 100
const maxTicksMissed = 30

/** Sends one event a second to every viewer. Without viewers no timer runs, and only refusals are recorded. */
export function createLiveStream(parts: StatusParts & { needsToken: boolean }): LiveStream {
  const { view, activity } = parts
  const viewers = new Set<Viewer>()
  let timer: NodeJS.Timeout | undefined
  let lastEventId = 0

  function hello(level: Level): string {
    return event('hello', {
      ...frame(level),
      access: level,
      needsToken: parts.needsToken,
      settings: view.settings,
      history: historyOf(parts.recorder),
      requests: level === 'full' ? activity.requests : [],
      failures: shownFailures(parts, level),
      refusals: shownRefusals(activity.reportedRefusals, level),
      refusedTotal: activity.refusedTotal,
      reportedTotal: activity.reportedTotal,
      faults: level === 'full' ? (view.sandbox?.faults() ?? null) : null,
      traffic: {
        url: view.traffic.url() ?? null,
        clientIpHeader: view.traffic.clientIpHeader,
        loopbackTrusted: view.traffic.loopbackTrusted,
      },
    })
  }

  function frame(level: Level) {
    const quotes = view.cache.list(maxQuotes)
    return {
      health: healthOf(parts, level),
      quotes: level === 'full' ? quotes : quotes.map((quote) => ({ ...quote, id: '' })),
      outages: shownOutages(parts.recorder.outages().current, level),
      recent: parts.recorder.history.recent,
      refusedByApplication: shownApplications(parts, level),
    }
  }

  function tick(): void {
    const passed = activity.tick()
    const passedSlots = slotsOf(parts.recorder.history)
    const events = parts.recorder.eventsAfter(lastEventId)
    lastEventId = events.at(-1)?.id ?? lastEventId
    // One text per level, for all viewers of that level.
    const texts = new Map<Level, string>()
    for (const viewer of viewers) {
      const { level, response } = viewer
      if (response.writableNeedDrain) {
        viewer.ticksMissed += 1
        if (viewer.ticksMissed > maxTicksMissed) response.destroy()
        continue
      }
      viewer.ticksMissed = 0
      let text = texts.get(level)
      if (text === undefined) {
        text = event('tick', {
          ...frame(level),
          ...passedSlots,
          events,
          requests: level === 'full' ? passed.requests : [],
          skipped: passed.skipped,
          refusals: shownRefusals(passed.refusals, level),
          refusedTotal: activity.refusedTotal,
          reportedTotal: activity.reportedTotal,
        })
        texts.set(level, text)
      }
      response.write(text)
    }
  }

  function leave(viewer: Viewer): void {
    viewers.delete(viewer)
    if (viewers.size > 0) return
    clearInterval(timer)
    timer = undefined
    activity.unwatch()
  }

  return {
    get viewers() {
      return viewers.size
    },
    join(response, level) {
      if (viewers.size >= maxViewers) return false
      const viewer: Viewer = { response, level, ticksMissed: 0 }
      viewers.add(viewer)
      response.once('close', () => leave(viewer))
      if (timer === undefined) {
        activity.watch()
        lastEventId = parts.recorder.eventsAfter(0).at(-1)?.id ?? 0
        timer = setInterval(tick, tickMs)
      }
      response.writeHead(200, {
        'Content-Type': 'text/event-stream; charset=utf-8',
        'X-Accel-Buffering': 'no',
      })
      response.write(hello(level))
      return true
    },
    close() {
      for (const { response } of viewers) response.end()
    },
  }
}

/** A few slots, in case this timer and the one of the history do not alternate. */
function slotsOf(history: Recorder['history']) {
  return { seconds: history.seconds(3), minutes: history.minutes(2) }
}

function event(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
}
