import { setTimeout } from 'node:timers/promises'

/**
 * Makes a page once for all that wait for it, and then not again for `restMs`, however often it is requested. No client
 * gets a page whose making began before its request.
 */
export function createSharedPage<Page>(
  make: () => Promise<Page>,
  restMs: (page: Page) => number,
): () => Promise<Page> {
  let next: Promise<Page> | undefined
  /** Settles once the last page is made, and the rest after it is over. */
  let rested: Promise<unknown> = Promise.resolve()

  async function makeNext(): Promise<Page> {
    await rested
    // Requests from now on get the next page.
    next = undefined
    const making = make()
    const rest = (page: Page) => setTimeout(restMs(page), undefined, { ref: false })
    rested = making.then(rest, () => {})
    return making
  }

  return () => {
    next ??= makeNext()
    return next
  }
}
