// How far the provider's wall clock is from ours, told from the `Date` of its answers. A `Date` is cut to whole
// seconds and was written at some moment between our sending and our receiving, so one answer bounds the offset
// (theirs minus ours) to an interval, and the intervals of many answers, intersected, bound it more closely.

import { readHttpDate } from '../http/http-date.ts'

export interface ClockSample {
  dateHeader: string | undefined
  /** The answer came out of a cache on the way, and so did its `Date` (RFC 9111 5.1). */
  hasAge: boolean
  /** Our wall clock before the first byte was sent. */
  sentAtMs: number
  /** Our wall clock when the answer's head was there. */
  receivedAtMs: number
  /** Since the last answer that told a time. */
  ourClockWasSet?: boolean
}

export interface ClockOffset {
  lowMs: number
  highMs: number
  /** For people and metrics; nothing is decided by it. */
  estimateMs: number
}

export interface UpstreamClock {
  /** Whether it told a time. */
  observe(sample: ClockSample): boolean
  /** Whether an answer has told the provider's time. Until then it is taken to be ours. */
  readonly isKnown: boolean
  /**
   * Whether it is taken to be ours, because it may be, to the millisecond. Not for a minute after two answers contradicted
   * each other by little: the provider seems to have two clocks, and one answer's `Date` cannot tell them apart.
   */
  readonly isOurs: boolean
  offset(): ClockOffset
  /** The latest time that the provider's clock may show: what serving a quote assumes. */
  latestMs(nowMs: number): number
  /** The earliest time that it may show: what refusing an order assumes. */
  earliestMs(nowMs: number): number
}

interface Interval {
  lowMs: number
  highMs: number
}

interface Bucket extends Interval {
  startMs: number
}

// A server's cached Date lags by this much (measured). On both sides it also covers what two clocks drift apart
// within the window: 30 ms a minute at NTP's fastest slew of 500 ppm.
export const toleranceMs = 250

// Samples that share a bucket are remembered as one interval: memory is bounded whatever the traffic.
const bucketMs = 5_000

// A clock that was set by too little to empty the intersection is believed after this time.
const windowMs = 60_000

// A slow answer's interval is wide enough to hold 0 beside a real offset. It must not be all that is
// remembered, or one slow answer after a quiet minute would let quotes be served by a clock known to be wrong.
const promptAnswerMs = 1_000
const windowAfterSlowAnswerMs = 600_000

const anyOffset: Interval = { lowMs: Number.NEGATIVE_INFINITY, highMs: Number.POSITIVE_INFINITY }

/**
 * Old samples are forgotten only when a newer one arrives, never by time alone: after a quiet hour the last
 * known offset is a better guess than 0, by which a cached quote of a skewed provider would be served past its
 * expiry.
 */
export function createUpstreamClock(): UpstreamClock {
  let buckets: Bucket[] = []
  let known = anyOffset
  let newestReceivedAtMs = Number.NEGATIVE_INFINITY
  /** When an answer last contradicted the others by less than its own interval is wide. */
  let blurredAtMs: number | undefined

  return {
    observe(sample) {
      const interval = readInterval(sample)
      // A sample that cannot be read does not end the uncertainty after our clock was set back either.
      if (interval === undefined) return false
      const setBack = wasSetBack(sample.receivedAtMs)
      if (setBack) restart()
      newestReceivedAtMs = setBack ? sample.receivedAtMs : Math.max(newestReceivedAtMs, sample.receivedAtMs)
      forgetBefore(sample.receivedAtMs - memoryMs(sample))
      if (setBack || sample.ourClockWasSet) blurredAtMs = undefined
      else if (isBlurredBy(interval)) blurredAtMs = sample.receivedAtMs
      else if (sample.receivedAtMs - (blurredAtMs ?? 0) > windowMs) blurredAtMs = undefined
      // One of the two clocks has been set, and only the newest sample is about both as they are now.
      if (sample.ourClockWasSet || isEmpty(intersect(known, interval))) restart()
      remember(interval, sample.receivedAtMs)
      return true
    },

    get isKnown() {
      return buckets.length > 0
    },

    get isOurs() {
      return holdsZero(known) && blurredAtMs === undefined
    },

    offset() {
      if (buckets.length === 0) return { lowMs: 0, highMs: 0, estimateMs: 0 }
      return { ...known, estimateMs: holdsZero(known) ? 0 : (known.lowMs + known.highMs) / 2 }
    },

    latestMs(nowMs) {
      if (wasSetBack(nowMs)) return Number.POSITIVE_INFINITY
      return holdsZero(known) ? nowMs : nowMs + known.highMs
    },

    earliestMs(nowMs) {
      if (wasSetBack(nowMs)) return Number.NEGATIVE_INFINITY
      return holdsZero(known) ? nowMs : nowMs + known.lowMs
    },
  }

  /**
   * Our own clock shows less than it did: what is known is about a clock that is gone, and until the next
   * answer nothing may be served or refused by it. A step within the tolerance is covered by the tolerance.
   */
  function wasSetBack(nowMs: number): boolean {
    return nowMs < newestReceivedAtMs - toleranceMs
  }

  function isBlurredBy(interval: Interval): boolean {
    const { lowMs, highMs } = intersect(known, interval)
    return lowMs > highMs && lowMs - highMs < interval.highMs - interval.lowMs
  }

  function restart(): void {
    buckets = []
    known = anyOffset
  }

  function forgetBefore(cutoffMs: number): void {
    const oldest = buckets[0]
    if (oldest === undefined || oldest.startMs >= cutoffMs) return
    buckets = buckets.filter((bucket) => bucket.startMs >= cutoffMs)
    known = buckets.reduce<Interval>(intersect, anyOffset)
  }

  function remember(interval: Interval, receivedAtMs: number): void {
    known = intersect(known, interval)
    const newest = buckets.at(-1)
    if (newest === undefined || receivedAtMs >= newest.startMs + bucketMs) {
      buckets.push({ startMs: receivedAtMs, ...interval })
    } else {
      Object.assign(newest, intersect(newest, interval))
    }
  }
}

function memoryMs(sample: ClockSample): number {
  const isPrompt = sample.receivedAtMs - sample.sentAtMs <= promptAnswerMs
  return isPrompt ? windowMs : windowAfterSlowAnswerMs
}

function readInterval(sample: ClockSample): Interval | undefined {
  if (sample.dateHeader === undefined || sample.hasAge) return undefined
  // Our clock was set back while the answer was under way: its two moments are of different clocks.
  if (sample.receivedAtMs < sample.sentAtMs) return undefined
  const dateMs = readHttpDate(sample.dateHeader, sample.receivedAtMs)
  if (dateMs === undefined) return undefined
  return {
    lowMs: dateMs - sample.receivedAtMs - toleranceMs,
    highMs: dateMs + 1_000 - sample.sentAtMs + toleranceMs,
  }
}

function intersect(left: Interval, right: Interval): Interval {
  return { lowMs: Math.max(left.lowMs, right.lowMs), highMs: Math.min(left.highMs, right.highMs) }
}

function isEmpty(interval: Interval): boolean {
  return interval.lowMs > interval.highMs
}

function holdsZero(interval: Interval): boolean {
  return interval.lowMs <= 0 && interval.highMs >= 0
}
