const minMs = 0.02
const growth = 1.1
const logGrowth = Math.log(growth)
/** The last bucket reaches past two minutes, which is longer than any deadline here. */
const bucketCount = 168

/** Counts durations in buckets that grow by a tenth each, so that any traffic takes 672 bytes. */
export class LatencyHistogram {
  readonly #buckets = new Uint32Array(bucketCount)
  #total = 0

  get count(): number {
    return this.#total
  }

  add(durationMs: number): void {
    const index = durationMs <= minMs ? 0 : Math.ceil(Math.log(durationMs / minMs) / logGrowth)
    const bucket = Math.min(index, bucketCount - 1)
    this.#buckets[bucket] = (this.#buckets[bucket] ?? 0) + 1
    this.#total += 1
  }

  merge(other: LatencyHistogram): void {
    if (other.#total === 0) return
    for (let index = 0; index < bucketCount; index += 1) {
      this.#buckets[index] = (this.#buckets[index] ?? 0) + (other.#buckets[index] ?? 0)
    }
    this.#total += other.#total
  }

  /** The duration that this share of the requests did not exceed; null without requests. */
  quantile(share: number): number | null {
    if (this.#total === 0) return null
    let left = Math.ceil(this.#total * share)
    for (let index = 0; index < bucketCount; index += 1) {
      left -= this.#buckets[index] ?? 0
      if (left <= 0) return minMs * growth ** index
    }
    return minMs * growth ** bucketCount
  }
}
