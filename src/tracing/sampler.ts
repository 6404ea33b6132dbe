import type { TraceParent } from '../http/ids.ts'

export type SamplerName =
  | 'always_on'
  | 'always_off'
  | 'traceidratio'
  | 'parentbased_always_on'
  | 'parentbased_always_off'
  | 'parentbased_traceidratio'

/** Decides whether a trace is recorded. No object is made for a decision. */
export interface Sampler {
  /** Whether the caller's flag decides, where the caller is trusted. */
  readonly followsParent: boolean
  /** What its own ratio says of a trace. */
  samples(traceId: string): boolean
  /** The id of a new trace that is recorded; undefined: the new trace is not. */
  newSampledId(): string | undefined
  newUnsampledId(): string
}

// The last 52 bits of an id that was made by the rules are random (W3C Trace Context Level 2 says so of 56 of them), and
// 52 fit into a number. By OpenTelemetry's rule for ratios a trace is sampled if they are at or above a threshold.
const randomDigits = 13
const randomRange = 16 ** randomDigits

export function createSampler(name: SamplerName, ratio: number): Sampler {
  const share = name.endsWith('always_on') ? 1 : name.endsWith('always_off') ? 0 : ratio
  const threshold = Math.round((1 - share) * randomRange)

  return {
    followsParent: name.startsWith('parentbased_'),
    samples: (traceId) => Number.parseInt(traceId.slice(-randomDigits), 16) >= threshold,
    newSampledId() {
      const random = Math.floor(Math.random() * randomRange)
      return random >= threshold ? traceIdOfRandom(random) : undefined
    },
    newUnsampledId: () => traceIdOfRandom(Math.floor(Math.random() * threshold)),
  }
}

/** Its first digits are random too, and not all 0. */
function traceIdOfRandom(random: number): string {
  const start = 1 + Math.floor(Math.random() * (16 ** 12 - 1))
  const middle = Math.floor(Math.random() * 16 ** 7)
  return hex(start, 12) + hex(middle, 7) + hex(random, randomDigits)
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0')
}

/** Whether a trace is recorded that was begun by a caller. */
export function samplesContinued(
  { followsParent, samples }: Sampler,
  parent: TraceParent,
  flagCounts: boolean,
): boolean {
  return followsParent && flagCounts ? parent.sampled : samples(parent.traceId)
}
