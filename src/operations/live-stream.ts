import type { ServerResponse } from 'node:http'
import type { Level } from './access.ts'
import type { Recent } from './recent.ts'
import type { Shown } from './status.ts'

interface Viewer {
  response: ServerResponse
  level: Level
  ticksMissed: number
}

const tickMs = 1_000
const maxViewers = 200
const maxTicksMissed = 30

/** Sends one event a second to every viewer. Without viewers no timer runs. */
export class LiveStream {
  readonly #shown: Pick<Shown, 'hello' | 'tick'>
  readonly #recent: Pick<Recent, 'isWatched' | 'tick' | 'eventsAfter' | 'lastEventId'>
  readonly #viewers = new Set<Viewer>()
  #timer: NodeJS.Timeout | undefined
  #lastEventId = 0

  constructor(
    shown: Pick<Shown, 'hello' | 'tick'>,
    recent: Pick<Recent, 'isWatched' | 'tick' | 'eventsAfter' | 'lastEventId'>,
  ) {
    this.#shown = shown
    this.#recent = recent
  }

  get viewers(): number {
    return this.#viewers.size
  }

  /** False: there are too many viewers already. */
  join(response: ServerResponse, level: Level): boolean {
    if (this.#viewers.size >= maxViewers) return false
    const viewer: Viewer = { response, level, ticksMissed: 0 }
    this.#viewers.add(viewer)
    response.once('close', () => this.#leave(viewer))
    if (this.#timer === undefined) {
      this.#recent.isWatched = true
      this.#lastEventId = this.#recent.lastEventId
      this.#timer = setInterval(() => this.#tick(), tickMs)
    }
    response.writeHead(200, {
      'Content-Type': 'text/event-stream; charset=utf-8',
      'X-Accel-Buffering': 'no',
    })
    response.write(event('hello', this.#shown.hello(level)))
    return true
  }

  close(): void {
    for (const { response } of this.#viewers) response.end()
  }

  #tick(): void {
    const events = this.#recent.eventsAfter(this.#lastEventId)
    this.#lastEventId = this.#recent.lastEventId
    const passed = { ...this.#recent.tick(), events }
    // One text per level, for all viewers of that level.
    const texts = new Map<Level, string>()
    for (const viewer of this.#viewers) {
      const { level, response } = viewer
      if (response.writableNeedDrain) {
        viewer.ticksMissed += 1
        if (viewer.ticksMissed > maxTicksMissed) response.destroy()
        continue
      }
      viewer.ticksMissed = 0
      const text = texts.get(level) ?? event('tick', this.#shown.tick(level, passed))
      texts.set(level, text)
      response.write(text)
    }
  }

  #leave(viewer: Viewer): void {
    this.#viewers.delete(viewer)
    if (this.#viewers.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#recent.isWatched = false
  }
}

function event(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
}
