export interface ExpiryQueue<Item> {
  readonly size: number
  add(item: Item): void
  earliest(): Item | undefined
  removeEarliest(): void
  /** In no order. */
  all(): Iterable<Item>
}

/**
 * A binary heap with the item that expires first on top. An item's `expiresAtMs` may grow while the item is queued:
 * the heap orders items by the expiry that they had when they were added. Such an item reaches the top too early,
 * never too late, and `earliest` then moves it down to its place.
 */
export function createExpiryQueue<Item extends { readonly expiresAtMs: number }>(): ExpiryQueue<Item> {
  const items: (Item | undefined)[] = []
  // Apart from the items, as unboxed doubles: 8 bytes per item, instead of a field and a boxed number in each item.
  const expiries: number[] = []

  function expiryAt(index: number): number {
    return expiries[index] ?? Number.POSITIVE_INFINITY
  }

  function swap(first: number, second: number): void {
    const item = items[first]
    const expiry = expiryAt(first)
    items[first] = items[second]
    expiries[first] = expiryAt(second)
    items[second] = item
    expiries[second] = expiry
  }

  function siftUp(start: number): void {
    for (let index = start; index > 0; ) {
      const parent = (index - 1) >> 1
      if (expiryAt(parent) <= expiryAt(index)) return
      swap(parent, index)
      index = parent
    }
  }

  function siftDown(): void {
    for (let index = 0; ; ) {
      const left = 2 * index + 1
      const child = expiryAt(left + 1) < expiryAt(left) ? left + 1 : left
      if (expiryAt(child) >= expiryAt(index)) return
      swap(child, index)
      index = child
    }
  }

  function earliest(): Item | undefined {
    for (let top = items[0]; top !== undefined && top.expiresAtMs > expiryAt(0); top = items[0]) {
      expiries[0] = top.expiresAtMs
      siftDown()
    }
    return items[0]
  }

  return {
    get size() {
      return items.length
    },

    add(item) {
      items.push(item)
      expiries.push(item.expiresAtMs)
      siftUp(items.length - 1)
    },

    earliest,

    all: () => items.filter((item) => item !== undefined),

    removeEarliest() {
      if (earliest() === undefined) return
      swap(0, items.length - 1)
      items.pop()
      expiries.pop()
      siftDown()
    },
  }
}
