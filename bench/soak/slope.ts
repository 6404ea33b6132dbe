export interface Sample {
  atMs: number
  bytes: number
}

/**
 * Bytes a minute: the median of the slopes between every two samples (Theil and Sen). A sample that was taken
 * with many requests in flight would move a least-squares line more than a slow leak does.
 */
export function bytesPerMinute(samples: readonly Sample[]): number {
  const slopes = samples.flatMap((later, index) =>
    samples
      .slice(0, index)
      .map((earlier) => (later.bytes - earlier.bytes) / (later.atMs - earlier.atMs)),
  )
  slopes.sort((left, right) => left - right)
  return (slopes[Math.floor(slopes.length / 2)] ?? 0) * 60_000
}
