import { type Ending, type Now, orderLeftMs } from '../clock.ts'

/** Nearly always it is one, which is kept without an array around it. */
export type Few<Item> = Item | Item[]

export function listOf<Item>(few: Few<Item> | undefined): readonly Item[] {
  if (few === undefined) return []
  return Array.isArray(few) ? few : [few]
}

/** With the same key: honest clients have one. */
const maxFew = 64

/** The first goes to make room, of those that may go if there is one. */
export function addTo<Key extends string | number, Item>(
  map: WideMap<Key, Few<Item>>,
  key: Key,
  item: Item,
  { most = maxFew, mayGo }: { most?: number; mayGo?: (item: Item) => boolean } = {},
): void {
  const found = map.get(key)
  if (found === undefined) map.set(key, item)
  else if (!Array.isArray(found)) map.set(key, [found, item])
  else if (found.push(item) > most) found.splice(mayGo ? Math.max(0, found.findIndex(mayGo)) : 0, 1)
}

export function removeFrom<Key extends string | number, Item>(
  map: WideMap<Key, Few<Item>>,
  key: Key,
  item: Item,
): void {
  const found = map.get(key)
  if (found === item) map.delete(key)
  if (!Array.isArray(found)) return
  const at = found.indexOf(item)
  if (at !== -1) found.splice(at, 1)
  if (found.length === 0) map.delete(key)
}

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

export type Alike<Item> = (item: Item, other: Item) => boolean

/** Of the items that are alike, the one that ends last, by a hash of what they have in common. */
export class LastToEnd<Item extends Ending> {
  readonly #byHash = new WideMap<number, Few<Item>>()

  add(hash: number, item: Item, isAlike: Alike<Item>, now: Now): void {
    const found = listOf(this.#byHash.get(hash))
    const alike = lastToEnd(
      found.filter((other) => isAlike(item, other)),
      now,
    )
    if (alike === undefined) addTo(this.#byHash, hash, item)
    else if (orderLeftMs(alike, now) <= orderLeftMs(item, now)) this.#replace(hash, alike, item)
  }

  /** In its place: a Map looks through all that was deleted under a key until it is built again. */
  #replace(hash: number, old: Item, item: Item): void {
    const found = this.#byHash.get(hash)
    if (Array.isArray(found)) found[found.indexOf(old)] = item
    else this.#byHash.set(hash, item)
  }

  delete(hash: number, item: Item): void {
    removeFrom(this.#byHash, hash, item)
  }

  /** Several may be meant that are not alike: prices of one double. */
  find(hash: number, isMeant: (item: Item) => boolean, now: Now): Item | undefined {
    const found = this.#byHash.get(hash)
    if (found === undefined) return undefined
    if (Array.isArray(found)) return lastToEnd(found.filter(isMeant), now)
    return isMeant(found) ? found : undefined
  }
}

const parts = 16

/**
 * A Map that grows in sixteen steps: one of a million entries holds the event loop for a tenth of a second each time that it
 * doubles.
 */
export class WideMap<Key extends string | number, Value> {
  readonly #parts = Array.from({ length: parts }, () => new Map<Key, Value>())

  get(key: Key): Value | undefined {
    return this.#partOf(key).get(key)
  }

  set(key: Key, value: Value): void {
    this.#partOf(key).set(key, value)
  }

  delete(key: Key): void {
    this.#partOf(key).delete(key)
  }

  #partOf(key: Key): Map<Key, Value> {
    const at =
      typeof key === 'number' ? key : key.charCodeAt(key.length - 1) + key.charCodeAt(key.length >> 1)
    return this.#parts[(at || 0) & (parts - 1)] as Map<Key, Value>
  }
}
