import { isZero, parseDecimal } from './decimal.ts'

const pairsPrefix = '/v3/pairs/'
const quotesSegment = '/quotes'

export interface QuoteTarget {
  /** The path segment as received. */
  pair: string
  /** Everything after the first "?", undecoded. */
  query: string
}

/** Reads a raw request target; `undefined` if its path is not a quote's path. */
export function readQuoteTarget(target: string): QuoteTarget | undefined {
  if (!target.startsWith(pairsPrefix)) return undefined
  const queryStart = target.indexOf('?')
  const pathEnd = queryStart === -1 ? target.length : queryStart
  const pairEnd = target.indexOf('/', pairsPrefix.length)
  if (pairEnd <= pairsPrefix.length) return undefined
  if (pathEnd - pairEnd !== quotesSegment.length || !target.startsWith(quotesSegment, pairEnd))
    return undefined
  return { pair: target.slice(pairsPrefix.length, pairEnd), query: target.slice(pathEnd + 1) }
}

export interface AmountReading {
  canonical: string
  /** The query parameters that tell quotes apart besides the amount, as sent and in order. */
  otherParameters: string
  problem?: undefined
}

export interface AmountProblem {
  /** A sentence for the client: names the parameter and says what is expected. */
  problem: string
}

/** Reads the amount out of a query (without its "?"), percent-decoded once. */
export function readAmount(query: string): AmountReading | AmountProblem {
  let amount: string | undefined
  let otherParameters = ''
  for (const part of query.split('&')) {
    // An empty part is not a parameter (WHATWG URL 5.1).
    if (part === '') continue
    const equals = part.indexOf('=')
    const name = percentDecode(equals === -1 ? part : part.slice(0, equals))
    if (name === 'amount') {
      if (amount !== undefined) return refuse('must be given once')
      amount = equals === -1 ? '' : percentDecode(part.slice(equals + 1))
      // Some upstreams read a plus as a blank, and perhaps "1e 21" as 1. So a spelling with a plus has its own key.
      if (part.includes('+')) otherParameters = append(otherParameters, part)
    } else if (isArrayForm(name)) {
      return refuse('must be given once, not as a list')
    } else {
      otherParameters = append(otherParameters, part)
    }
  }
  if (amount === undefined) return refuse('is missing')

  const canonical = parseDecimal(amount)
  if (canonical === undefined) return refuse(reasonAgainst(amount))
  if (isZero(canonical)) return refuse('must be greater than zero')
  return { canonical, otherParameters }
}

/** `qs`, with which many upstreams read queries, treats all of these names as further values of `amount`. */
function isArrayForm(name: string): boolean {
  return name.startsWith('amount[') || name.startsWith('[amount]')
}

function reasonAgainst(amount: string): string {
  if (amount === '') return 'is empty'
  if (amount.startsWith('-') && parseDecimal(amount.slice(1)) !== undefined)
    return 'must be greater than zero'
  return 'must be a decimal number such as 0.1 or 1e-7, with at most 80 digits and three digits of exponent'
}

function refuse(reason: string): AmountProblem {
  return { problem: `The query parameter "amount" ${reason}.` }
}

function append(parameters: string, part: string): string {
  return parameters === '' ? part : `${parameters}&${part}`
}

/**
 * Decodes each byte by itself, not as UTF-8, so that it never throws. Only ASCII matters here, and a byte above 7F
 * never decodes to ASCII.
 */
function percentDecode(text: string): string {
  if (!text.includes('%')) return text
  return text.replaceAll(/%([0-9A-Fa-f]{2})/g, (_escape, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
}

/** What a quote target asks for. */
export type AskedQuote = { pair: string } & (AmountReading | AmountProblem)

/** Undefined: its path is not that of a quote. */
export function readAskedQuote(target: string): AskedQuote | undefined {
  const parts = readQuoteTarget(target)
  return parts && { pair: parts.pair, ...readAmount(parts.query) }
}
