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
 * asked for. No client gets a page whose rendering began before it was asked for.
 */
export function createSharedPage(
  render: () => Promise<TimedPage>,
): () => Promise<Buffer> {
  let next: Promise<Buffer> | undefined
  /** Settles once the last rendering is over, and has rested. */
  let rested: Promise<unknown> = Promise.resolve()

  async function renderNext(): Promise<Buffer> {
    await rested
    // Who asks from now on is not in this page.
    next = undefined
    const rendering = render()
    const rest = ({ tookMs }: TimedPage) =>
      setTimeout(Math.min(tookMs * restFactor, maxRestMs), undefined, { ref: false })
    rested = rendering.then(rest, () => {})
    return Buffer.from((await rendering).text)
  }

  return () => {
    next ??= renderNext()
    return next
  }
}
