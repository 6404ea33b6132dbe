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
