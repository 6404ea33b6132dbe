export interface Spread {
  median: number
  min: number
  max: number
}

export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((left, right) => left - right)
  return { median: quantile(sorted, 0.5), min: quantile(sorted, 0), max: quantile(sorted, 1) }
}

/** `sorted` ascends. Between two values, the result is interpolated. */
export function quantile(sorted: readonly number[], share: number): number {
  const at = (sorted.length - 1) * share
  const below = sorted[Math.floor(at)]
  const above = sorted[Math.ceil(at)]
  if (below === undefined || above === undefined) return Number.NaN
  return below + (above - below) * (at - Math.floor(at))
}

/** Round by round, because a slow minute of the machine slows both sides. */
export function ratios(left: readonly number[], right: readonly number[]): Spread {
  return spread(left.map((value, round) => value / (right[round] ?? Number.NaN)))
}

/** A run is not more exact than four significant figures. */
export function rounded(value: number): number {
  return Number.isFinite(value) ? Number(value.toPrecision(4)) : value
}
