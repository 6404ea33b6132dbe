/** A number from 0 up to, and without, 1. */
export type Random = () => number

/** mulberry32: integers and one division, so every machine draws the same numbers from the same seed. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** A whole number between the two, both included. */
export function drawBetween(random: Random, [least, most]: readonly [number, number]): number {
  return least + Math.floor(random() * (most - least + 1))
}

/**
 * Draws ranks from 0 by Zipf's law with exponent 1: the n-th is drawn 1/n as often as the first. No other
 * exponent, because `Math.pow` may differ in its last digit from one engine to the next.
 */
export function createZipf(ranks: number, random: Random): () => number {
  const cumulative: number[] = []
  let sum = 0
  for (let rank = 1; rank <= ranks; rank += 1) {
    sum += 1 / rank
    cumulative.push(sum)
  }
  return () => firstAbove(cumulative, random() * sum)
}

function firstAbove(ascending: readonly number[], value: number): number {
  let low = 0
  let high = ascending.length - 1
  while (low < high) {
    const middle = (low + high) >> 1
    if ((ascending[middle] ?? 0) > value) high = middle
    else low = middle + 1
  }
  return low
}
