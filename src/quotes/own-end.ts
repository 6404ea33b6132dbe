import { headerValues } from '../http/headers.ts'
import { readHttpDate } from '../http/http-date.ts'
import type { AnswerHead } from '../upstream/fetch.ts'
import type { OwnEnd } from './quote.ts'

/** The `Date` of an answer, and whether the answer, its `Date` with it, is out of a cache (RFC 9111 5.1). */
export function readDateHeaders(rawHeaders: readonly string[]): {
  dateHeader: string | undefined
  hasAge: boolean
} {
  const dates = headerValues(rawHeaders, 'date')
  const ages = headerValues(rawHeaders, 'age')
  return {
    dateHeader: dates.length === 1 ? dates[0] : undefined,
    // An Age that is not a number still says that the answer has an age.
    hasAge: ages.some((age) => !/^0+$/.test(age)),
  }
}

/** A `Date` is cut to whole seconds, and a server's cached `Date` lags by up to 250 ms (measured). */
const dateLagMs = 1_250

/** No quote that is believed lives longer (quote.ts): a `Date` that says so is wrong. */
const maxLifeMs = 86_400_000

interface DatedAnswer extends Pick<AnswerHead, 'receivedAtMs' | 'sentSteadyMs' | 'receivedSteadyMs'> {
  readonly rawHeaders: readonly string[]
}

/** Between which instants of our steady clock a quote ends, told by its own answer alone; undefined: that tells nothing. */
export function ownEndOf(answer: DatedAnswer, expiresAtMs: number): OwnEnd | undefined {
  const { dateHeader, hasAge } = readDateHeaders(answer.rawHeaders)
  if (dateHeader === undefined || hasAge) return undefined
  const dateMs = readHttpDate(dateHeader, answer.receivedAtMs)
  if (dateMs === undefined) return undefined
  const lifeMs = expiresAtMs - dateMs
  if (lifeMs > maxLifeMs) return undefined
  // Whole milliseconds, since V8 needs no object for them.
  return {
    fromMs: Math.floor(answer.sentSteadyMs + lifeMs - dateLagMs),
    untilMs: Math.ceil(answer.receivedSteadyMs + lifeMs),
  }
}
