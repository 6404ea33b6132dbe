import { setTimeout } from 'node:timers/promises'

/** Makes a page once for all that wait, and then rests for `restMs`. No request gets a page that was begun before it. */
export function createSharedPage<Page>(
  make: () => Promise<Page>,
  restMs: (page: Page) => number,
): () => Promise<Page> {
  let next: Promise<Page> | undefined
  /** Settles after the last page and its rest. */
  let rested: Promise<unknown> = Promise.resolve()

  async function makeNext(): Promise<Page> {
    await rested
    // Later requests get the next page.
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
