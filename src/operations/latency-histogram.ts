const smallestMs = 0.02
const step = 1.1
const logStep = Math.log(step)
/** The last one ends past two minutes, longer than any deadline here. */
const count = 168

/** How many requests took how long, in steps of a tenth: a second of any traffic in the same few bytes. */
export class Durations {
  readonly #buckets = new Uint32Array(count)
  #total = 0

  add(durationMs: number): void {
    const index = durationMs <= smallestMs ? 0 : Math.ceil(Math.log(durationMs / smallestMs) / logStep)
    const bucket = Math.min(index, count - 1)
    this.#buckets[bucket] = (this.#buckets[bucket] ?? 0) + 1
    this.#total += 1
  }

  merge(other: Durations): void {
    for (let index = 0; index < count; index += 1) {
      this.#buckets[index] = (this.#buckets[index] ?? 0) + (other.#buckets[index] ?? 0)
    }
    this.#total += other.#total
  }

  /** The time within which that share of them ended; null when there were none. */
  quantile(share: number): number | null {
    if (this.#total === 0) return null
    let left = Math.ceil(this.#total * share)
    for (let index = 0; index < count; index += 1) {
      left -= this.#buckets[index] ?? 0
      if (left <= 0) return smallestMs * step ** index
    }
    return smallestMs * step ** count
  }
}
