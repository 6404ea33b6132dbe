import { type Ending, type Now, orderLeftMs } from '../clock.ts'

export function lastToEnd<Item extends Ending>(
  items: readonly (Item | undefined)[],
  now: Now,
): Item | undefined {
  let last: Item | undefined
  for (const item of items) last = later(last, item, now)
  return last
}

/** Of two that end at once the first. */
export function later<Item extends Ending>(
  one: Item | undefined,
  other: Item | undefined,
  now: Now,
): Item | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return orderLeftMs(other, now) > orderLeftMs(one, now) ? other : one
}

/** With the same key: honest clients have one. */
export const maxFew = 64
const parts = 16
const none: readonly never[] = []

/**
 * The few items of each key; nearly always it is one, which is kept without an array around it. Sixteen maps in place of
 * one: one of a million entries holds the event loop for a tenth of a second each time that it doubles.
 */
export class Few<Key extends string | number, Item> {
  readonly #parts = Array.from({ length: parts }, () => new Map<Key, Item | Item[]>())

  of(key: Key): readonly Item[] {
    const found = this.#partOf(key).get(key)
    if (found === undefined) return none
    return Array.isArray(found) ? found : [found]
  }

  /** The first goes to make room, of those that may go if there is one. */
  add(key: Key, item: Item, most = maxFew, mayGo?: (item: Item) => boolean): void {
    const part = this.#partOf(key)
    const found = part.get(key)
    if (found === undefined) part.set(key, item)
    else if (!Array.isArray(found)) part.set(key, [found, item])
    else if (found.push(item) > most) found.splice(mayGo ? Math.max(0, found.findIndex(mayGo)) : 0, 1)
  }

  /** In its place: a Map looks through all that was deleted under a key until it is built again. */
  replace(key: Key, old: Item, item: Item): void {
    const part = this.#partOf(key)
    const found = part.get(key)
    if (Array.isArray(found)) found[found.indexOf(old)] = item
    else part.set(key, item)
  }

  remove(key: Key, item: Item): void {
    const part = this.#partOf(key)
    const found = part.get(key)
    if (found === item) part.delete(key)
    if (!Array.isArray(found)) return
    const at = found.indexOf(item)
    if (at !== -1) found.splice(at, 1)
    if (found.length === 0) part.delete(key)
  }

  #partOf(key: Key): Map<Key, Item | Item[]> {
    const at =
      typeof key === 'number' ? key : key.charCodeAt(key.length - 1) + key.charCodeAt(key.length >> 1)
    return this.#parts[(at || 0) & (parts - 1)] as Map<Key, Item | Item[]>
  }
}

/** Of the items that are alike, the one that ends last, by a hash of what they have in common. */
export class LastToEnd<Item extends Ending> extends Few<number, Item> {
  addLast(hash: number, item: Item, isAlike: (other: Item) => boolean, now: Now): void {
    const alike = this.find(hash, isAlike, now)
    if (alike === undefined) this.add(hash, item)
    else if (orderLeftMs(alike, now) <= orderLeftMs(item, now)) this.replace(hash, alike, item)
  }

  /** Several may be meant that are not alike: prices of one double. */
  find(hash: number, isMeant: (item: Item) => boolean, now: Now): Item | undefined {
    let last: Item | undefined
    for (const item of this.of(hash)) if (isMeant(item)) last = later(last, item, now)
    return last
  }
}
