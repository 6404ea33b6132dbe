import { setTimeout } from 'node:timers/promises'

/** Of the time of the event loop, rendering takes a sixth at most. */
const restFactor = 5
/** A process that was paused in the middle seems to have rendered for hours. Prometheus waits for ten seconds. */
const maxRestMs = 5_000

export interface TimedPage {
  text: string
  /** Without what the event loop did between its turns: much, if many ask. */
  tookMs: number
}

/**
 * Renders a page once for all that wait for it, and not again within five times as long as that took, however often it is
 * asked for. No page is given out whose rendering began before it was asked for.
 */
export function createSharedPage(render: () => Promise<TimedPage>): () => Promise<Buffer> {
  let next: Promise<Buffer> | undefined
  /** Settles once the last rendering has ended. */
  let last: Promise<unknown> = Promise.resolve()
  let restsUntilMs = 0

  async function renderNext(): Promise<Buffer> {
    await last
    const restMs = restsUntilMs - performance.now()
    if (restMs > 0) await setTimeout(restMs)
    // Who asks from now on is not in this page.
    next = undefined
    const rendering = renderNow()
    last = rendering.catch(() => {})
    return rendering
  }

  async function renderNow(): Promise<Buffer> {
    const { text, tookMs } = await render()
    restsUntilMs = performance.now() + Math.min(tookMs * restFactor, maxRestMs)
    return Buffer.from(text)
  }

  return () => {
    next ??= renderNext()
    return next
  }
}
