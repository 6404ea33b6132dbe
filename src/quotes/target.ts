import { isZero, parseDecimal } from '../http/decimal.ts'
import { type AmountProblem, type AmountReading, foldPath, type QuotePath } from '../http/target.ts'

const plainPath = /^\/v3\/pairs\/([^/]+)\/quotes$/
const foldedPath = /^\/v3\/pairs\/([^/]+)\/quotes$/i

/** Reads a path that upstream routers may take for a quote's; undefined if none does. */
export function readQuotePath(path: string): QuotePath | undefined {
  for (const reading of foldPath(path)) {
    const pair = foldedPath.exec(reading)?.[1]
    if (pair === undefined) continue
    return plainPath.exec(path)?.[1] === pair ? { pair } : { pair, spelledPath: path }
  }
  return undefined
}

/**
 * One name for all spellings of a pair that upstream routers may take for the same: without escapes, path parameters and
 * small letters. For counting alone: two names may have one.
 */
export function foldPair(pair: string): string {
  return percentDecode(pair).replace(/;.*$/s, '').toUpperCase()
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
