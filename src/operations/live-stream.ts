import type { ServerResponse } from 'node:http'
import { type Level, Refused } from './access.ts'
import type { Mark, Recent } from './recent.ts'
import type { Shown } from './status.ts'

interface Viewer {
  readonly response: ServerResponse
  readonly level: Level
  /** Until when this viewer was sent what happened. */
  mark: Mark
  ticksMissed: number
}

const maxViewers = 200
const maxTicksMissed = 30

export type LiveStream = ReturnType<typeof createLiveStream>

/** Sends to each viewer the whole state, and then once a second what is new. */
export function createLiveStream(shown: Pick<Shown, 'hello' | 'tick'>, recent: Recent) {
  const viewers = new Set<Viewer>()

  return { join, close, tick }

  function join(response: ServerResponse, level: Level): void {
    if (viewers.size >= maxViewers)
      throw new Refused(503, 'Too many look at this console already.')
    if (viewers.size === 0) recent.watch(true)
    const hello = event('hello', shown.hello(level))
    const viewer: Viewer = { response, level, mark: recent.mark, ticksMissed: 0 }
    viewers.add(viewer)
    response.once('close', () => {
      viewers.delete(viewer)
      if (viewers.size === 0) recent.watch(false)
    })
    const type = 'text/event-stream; charset=utf-8'
    response.writeHead(200, { 'Content-Type': type, 'X-Accel-Buffering': 'no' })
    response.write(hello)
  }

  function close(): void {
    for (const { response } of viewers) response.end()
  }

  /** Called once a second. A viewer that did not take the events before gets what has happened since its last one. */
  function tick(): void {
    const { mark } = recent
    // One text for all viewers of a level that got the same events until now.
    const texts = new Map<string, string>()
    for (const viewer of viewers) {
      const { level, response } = viewer
      if (response.writableNeedDrain) {
        viewer.ticksMissed += 1
        if (viewer.ticksMissed > maxTicksMissed) response.destroy()
        continue
      }
      const key = JSON.stringify([level, viewer.mark])
      const text =
        texts.get(key) ?? event('tick', shown.tick(level, recent.after(viewer.mark)))
      texts.set(key, text)
      response.write(text)
      viewer.mark = mark
      viewer.ticksMissed = 0
    }
  }
}

function event(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
}
