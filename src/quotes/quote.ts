import { isUtf8 } from 'node:buffer'
import { z } from 'zod'
import { differsByOverAHundredth, isZero, parseDecimal } from '../http/decimal.ts'

export interface Amount {
  assetId: string
  /** As the provider wrote it. */
  value: string
}

export interface Quote {
  id: string
  pairId: string
  fromAmount: Amount
  toAmount: Amount
  /** An instant of the provider's clock, not of ours: ends.ts says when the quote is over. */
  expiryMs: number
}

/** Why an answer is not cached. */
export const notKeptReasons = [
  'status',
  'not-json',
  'not-a-quote',
  'other-amount',
  'no-expiry',
  'expiry-in-seconds',
  'expiry-too-far',
  'expired',
  'content-coding',
  'vary',
  'cache-control',
  'too-large',
  'used',
] as const

export type NotKeptReason = (typeof notKeptReasons)[number]

/** Why an answer cannot be kept as a quote, whatever came with it. */
type UnusableReason = Extract<
  NotKeptReason,
  'not-json' | 'not-a-quote' | 'other-amount' | 'no-expiry' | 'expiry-in-seconds'
>

export type QuoteReading =
  | { quote: Quote; reason?: undefined }
  | { quote?: undefined; reason: UnusableReason }

// As milliseconds this is March 1973, as seconds the year 5138: no quote's expiry lies on the wrong side of it.
const minExpiryMs = 1e11

const identifier = z.string().min(1).max(256)
const amount = z.object({ assetId: identifier, value: z.string().refine(isPositiveDecimal) })
export const quoteWithoutExpiry = z.object({
  id: identifier,
  pairId: z.string().min(1),
  fromAmount: amount,
  toAmount: amount,
  expiry: z.unknown().optional(),
})

/** `asked`: the canonical amount that the quote was asked for; without it, the quote may be for any amount. */
export function readQuote(body: Buffer, asked?: string): QuoteReading {
  const json = parseJson(body)
  if (json === undefined) return { reason: 'not-json' }
  const parsed = quoteWithoutExpiry.safeParse(json)
  if (!parsed.success) return { reason: 'not-a-quote' }

  const { id, pairId, fromAmount, toAmount, expiry } = parsed.data
  if (asked !== undefined && isForOtherAmount(fromAmount, asked)) return { reason: 'other-amount' }
  if (typeof expiry !== 'number' || !Number.isInteger(expiry) || expiry <= 0) return { reason: 'no-expiry' }
  if (expiry < minExpiryMs) return { reason: 'expiry-in-seconds' }
  return { quote: { id, pairId, fromAmount, toAmount, expiryMs: expiry } }
}

/** Providers round amounts a little. One that reads `1e3` as 1 gives a quote that is not for `1000`. */
function isForOtherAmount({ value }: Amount, asked: string): boolean {
  const stated = parseDecimal(value)
  return stated !== undefined && differsByOverAHundredth(stated, asked)
}

/** An answer that a client may use as a quote, though it cannot be kept: an object with a toAmount. */
export interface QuoteLookalike {
  /** Undefined: it names no pair. */
  pairId: string | undefined
  /** Canonical. Undefined: it states no fromAmount that can be read. */
  fromAmount: string | undefined
}

export function readLookalike(body: Buffer): QuoteLookalike | undefined {
  const json = parseJson(body)
  if (typeof json !== 'object' || json === null || !('toAmount' in json) || json.toAmount === null)
    return undefined
  return {
    pairId: 'pairId' in json && typeof json.pairId === 'string' ? json.pairId : undefined,
    fromAmount: 'fromAmount' in json ? amountIn(json.fromAmount) : undefined,
  }
}

/** Of an Amount, or of a number or text in its place. */
function amountIn(stated: unknown): string | undefined {
  const value = typeof stated === 'object' && stated !== null && 'value' in stated ? stated.value : stated
  return typeof value === 'string' || typeof value === 'number' ? parseDecimal(String(value)) : undefined
}

/** Repeated keys are not detected: the last one counts, as it does for the client that gets these bytes. */
function parseJson(body: Buffer): unknown {
  // RFC 8259 8.1. Decoding would replace broken bytes, and two different ids could become one.
  if (!isUtf8(body)) return undefined
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
}

function isPositiveDecimal(text: string): boolean {
  const canonical = parseDecimal(text)
  return canonical !== undefined && !isZero(canonical)
}
