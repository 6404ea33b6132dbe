export interface Sample {
  atMs: number
  bytes: number
}

/** The slope of the straight line that fits best (least squares), in bytes a minute. */
export function bytesPerMinute(samples: readonly Sample[]): number {
  const count = samples.length
  const meanMs = samples.reduce((sum, { atMs }) => sum + atMs, 0) / count
  const meanBytes = samples.reduce((sum, { bytes }) => sum + bytes, 0) / count
  let product = 0
  let square = 0
  for (const { atMs, bytes } of samples) {
    product += (atMs - meanMs) * (bytes - meanBytes)
    square += (atMs - meanMs) ** 2
  }
  return square === 0 ? 0 : (product / square) * 60_000
}
