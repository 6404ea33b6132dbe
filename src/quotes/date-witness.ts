import { headerValues } from '../http/headers.ts'
import { readHttpDate } from '../http/http-date.ts'
import type { AnswerHead } from '../upstream/fetch.ts'

export type DatedAnswer = Pick<
  AnswerHead,
  'rawHeaders' | 'receivedAtMs' | 'sentSteadyMs' | 'receivedSteadyMs'
>

/** The provider's clock less ours, as the `Date` of one answer bounds it. */
export interface Difference {
  readonly lowMs: number
  readonly highMs: number
}

/** A `Date` is cut to whole seconds, and a server's cached `Date` lags by up to 250 ms (measured). */
export const cutMs = 1_000
export const lagMs = 250

/** Undefined: the answer has no readable `Date`, or it is out of a cache, its `Date` with it (RFC 9111 5.1). */
export function readDate({ rawHeaders, receivedAtMs }: DatedAnswer): number | undefined {
  const [date, ...further] = headerValues(rawHeaders, 'date')
  // An Age that is not a number still says that the answer has an age.
  const hasAge = headerValues(rawHeaders, 'age').some((age) => !/^0+$/.test(age))
  return date === undefined || further.length > 0 || hasAge ? undefined : readHttpDate(date, receivedAtMs)
}

/** It was written at some moment between our sending and our receiving. */
export function differenceOf(
  dateMs: number,
  { receivedAtMs, sentSteadyMs, receivedSteadyMs }: DatedAnswer,
): Difference {
  const sentAtMs = receivedAtMs - (receivedSteadyMs - sentSteadyMs)
  return { lowMs: dateMs - lagMs - receivedAtMs, highMs: dateMs + cutMs + lagMs - sentAtMs }
}
