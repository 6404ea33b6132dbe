export interface Bounds<Value> {
  maxEntries: number
  maxBytes?: number
  bytesOf?: (value: Value) => number
}

/** A map that drops its oldest entries when it grows past its bounds. */
export class BoundedMap<Value> {
  readonly #bounds: Required<Bounds<Value>>
  readonly #entries = new Map<string, Value>()
  #bytes = 0

  constructor(bounds: Bounds<Value>) {
    this.#bounds = { maxBytes: Number.POSITIVE_INFINITY, bytesOf: () => 0, ...bounds }
  }

  get(key: string): Value | undefined {
    return this.#entries.get(key)
  }

  /** The entry becomes the newest, also if its key was there before. */
  set(key: string, value: Value): void {
    this.#delete(key)
    this.#entries.set(key, value)
    this.#bytes += this.#bounds.bytesOf(value)
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#bounds.maxEntries && this.#bytes <= this.#bounds.maxBytes) break
      this.#delete(oldest)
    }
  }

  newestFirst(): Value[] {
    return [...this.#entries.values()].reverse()
  }

  #delete(key: string): void {
    const value = this.#entries.get(key)
    if (value === undefined) return
    this.#entries.delete(key)
    this.#bytes -= this.#bounds.bytesOf(value)
  }
}
