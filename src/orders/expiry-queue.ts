export interface ExpiryQueue<Item> {
  readonly size: number
  add(item: Item): void
  earliest(): Item | undefined
  removeEarliest(): void
}

/**
 * A binary heap, the item that expires first on top. An item's expiry may move to a later instant while it is
 * inside, because each place remembers the expiry that it was given for: an item comes up too early rather than
 * too late, and is then put where it belongs.
 */
export function createExpiryQueue<Item extends { readonly expiresAtMs: number }>(): ExpiryQueue<Item> {
  const items: (Item | undefined)[] = []
  // Beside the items, as unboxed doubles: 8 bytes an item instead of a field and a boxed number in each.
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

    removeEarliest() {
      if (earliest() === undefined) return
      swap(0, items.length - 1)
      items.pop()
      expiries.pop()
      siftDown()
    },
  }
}
