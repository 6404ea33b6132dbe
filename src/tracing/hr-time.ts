/** Seconds and nanoseconds, as OpenTelemetry has times. */
export function hrTime(ms: number): [seconds: number, nanoseconds: number] {
  const seconds = Math.floor(ms / 1_000)
  return [seconds, Math.min(999_999_999, Math.round((ms - seconds * 1_000) * 1_000_000))]
}
