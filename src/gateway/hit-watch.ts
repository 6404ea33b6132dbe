import type { Metrics } from '../metrics/metrics.ts'

/**
 * Whether a quote was served from a cache since a moment. Hits are counted and not dated, so it compares the count each time
 * that it is asked, and takes a hit to be as old as the time before.
 */
export function createHitWatch({ quoteCounts }: Pick<Metrics, 'quoteCounts'>): (sinceMs: number) => boolean {
  let before = { hits: 0, atMs: Number.NEGATIVE_INFINITY }
  let lastHitAtMs = Number.NEGATIVE_INFINITY
  return (sinceMs) => {
    const { hit, shared } = quoteCounts().lookups
    if (hit + shared > before.hits) lastHitAtMs = before.atMs
    before = { hits: hit + shared, atMs: performance.now() }
    return lastHitAtMs >= sinceMs
  }
}
