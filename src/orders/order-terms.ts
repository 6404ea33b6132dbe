import { isUtf8 } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import { isZero, parseDecimal, shortestDecimal } from '../http/decimal.ts'
import { briefText, flatText } from '../process/text.ts'
import type { AmountClaim, WantedSwap } from './ports.ts'

interface NamedQuote {
  readonly id: string
  /** From the field `id`, where an order may have a number of the caller's own. */
  readonly isBare: boolean
}

export interface OrderTerms extends WantedSwap {
  /** The id in the header Quotegate-Quote, then the ids in ORDER_QUOTE_ID_FIELDS, in their order. */
  quoteIds: readonly NamedQuote[]
  pair: string | undefined
  /** The pair. Undefined if a reader that ignores the case of member names might read another one. */
  surePair: string | undefined
  /** `unreadable`: the member is not an amount. */
  toAmount: AmountClaim | 'unreadable' | undefined
  /** Only for looking up the orders to an address. */
  toAddress?: string | undefined
}

type OrderReading =
  | { order: OrderTerms; problem?: undefined }
  | { order?: undefined; problem: string }

interface OrderOptions {
  /** Dotted paths, such as `quote.id`. */
  quoteIdFields: readonly string[]
  header?: string | undefined
}

const maxDepth = 32

const quoteByte = 0x22
const backslash = 0x5c
const colon = 0x3a
const [openingBrace, closingBrace] = Buffer.from('{}')
const [openingBracket, closingBracket] = Buffer.from('[]')

/** The route limits the size of the body, and forwards the received bytes, never the parsed copy. */
export function readOrder(body: Buffer, options: OrderOptions): OrderReading {
  if (body.length === 0)
    return { problem: 'The body is empty. An order is a JSON object.' }
  if (!isUtf8(body))
    return { problem: 'The body is not valid UTF-8, which JSON has to be.' }
  const shape = measure(body)
  if (shape.depth > maxDepth)
    return { problem: `The body is nested more than ${maxDepth} levels deep.` }
  const text = body.toString('utf8')
  // RFC 8259 section 8.1: a parser may ignore or refuse a byte order mark. What the provider does is unknown.
  if (text.startsWith('\ufeff'))
    return {
      problem: 'The body starts with a byte order mark, which JSON must not have.',
    }

  let json: unknown
  try {
    json = parseJson(text)
  } catch {
    return { problem: 'The body is not valid JSON.' }
  }
  // If a key comes twice, the object has fewer keys than the text has colons.
  if (countKeys(json) !== shape.colons)
    return {
      problem:
        'The body has the same key twice in one object, so it is ambiguous which of the two counts.',
    }
  if (!isObject(json)) return { problem: 'The body is not a JSON object.' }
  return { order: readTerms(json, options) }
}

function readTerms(json: object, { quoteIdFields, header }: OrderOptions): OrderTerms {
  const named = quoteIdFields.flatMap((path) => {
    const value = memberAt(json, path)
    const id = textOf(digitsOf(value) ?? value)
    return id === undefined ? [] : { id: flatText(id), isBare: path === 'id' }
  })
  const quoteIds = [...namedByHeader(header), ...named]
  const [fromAmount, toAmount] = [
    readAmount(json, 'fromAmount'),
    readAmount(json, 'toAmount'),
  ]
  const [statedPair, toAddress] = ['pairId', 'toAddress'].map((name) =>
    textOf(memberAt(json, name)),
  )
  // Flat copies, because the order keeps these texts until it is answered, and the parser joins each from its
  // characters.
  const pair = statedPair && flatText(statedPair)
  return {
    quoteIds,
    pair,
    surePair: statesPairOnce(json) ? pair : undefined,
    foldedPair: pair && briefText(pair).toUpperCase(),
    toAddress: toAddress && flatText(toAddress),
    fromAmount: fromAmount === 'unreadable' ? undefined : fromAmount,
    toAmount,
  }
}

/**
 * A number that a double would spell in another way is parsed as a list of this random mark and its digits. A list may
 * stand wherever a number may, and no body has the mark.
 */
const numberMark = randomBytes(9).toString('base64url')
const stringOrNumber =
  /"(?:[^"\\]|\\[\s\S])*"?|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/g

function parseJson(text: string): unknown {
  return JSON.parse(
    text.replace(stringOrNumber, (token) => {
      const isKept = token.startsWith('"') || String(Number(token)) === token
      return isKept ? token : `["${numberMark}","${token}"]`
    }),
  )
}

/** Undefined: the value is not a number. */
function digitsOf(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value)
  return Array.isArray(value) && value[0] === numberMark ? value[1] : undefined
}

/** The header Quotegate-Quote names a quote, never a number of the caller's own. */
export function namedByHeader(id: string | undefined): NamedQuote[] {
  return id === undefined ? [] : [{ id, isBare: false }]
}

function statesPairOnce(json: object): boolean {
  return Object.keys(json).filter((name) => /^pairId$/i.test(name)).length === 1
}

/** The member at a dotted path. Inherited properties are not part of the order. */
function memberAt(json: object, path: string): unknown {
  let value: unknown = json
  for (const name of path.split('.'))
    value = isObject(value)
      ? Object.getOwnPropertyDescriptor(value, name)?.value
      : undefined
  return value
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** The order states no amount if the member is missing or `null`. */
function readAmount(json: object, name: string): AmountClaim | 'unreadable' | undefined {
  const member = memberAt(json, name)
  const value = isObject(member) ? memberAt(member, 'value') : member
  if (value === undefined || value === null) return undefined
  const digits = digitsOf(value)
  const isNumber = digits !== undefined
  const text = digits ?? value
  if (typeof text !== 'string') return 'unreadable'
  const canonical = parseDecimal(text)
  if (canonical !== undefined)
    return {
      text,
      canonical: isNumber ? shortestDecimal(canonical) : canonical,
      isNumber,
    }
  // The provider may accept blanks, a plus or a hundred digits: an odd spelling must not bypass the guard.
  const double = String(Number(text))
  const lenient = parseDecimal(double)
  // Number() reads blanks, and some other texts that are not numbers, as 0.
  if (lenient === undefined || isZero(lenient)) return 'unreadable'
  return { text: double, canonical: lenient, isNumber: true }
}

/**
 * Measured before parsing: the parser is recursive, and a body of brackets would overflow the stack. In valid JSON each
 * colon outside a string belongs to one key. No byte of a longer UTF-8 sequence is ASCII.
 */
function measure(body: Buffer): { depth: number; colons: number } {
  const shape = { depth: 0, colons: 0 }
  let level = 0
  let inString = false
  for (let index = 0; index < body.length; index += 1) {
    const byte = body[index] ?? 0
    if (byte === quoteByte) inString = !inString
    else if (inString) {
      if (byte === backslash) index += 1
    } else if (byte === colon) shape.colons += 1
    else if (byte === openingBrace || byte === openingBracket) {
      level += 1
      shape.depth = Math.max(shape.depth, level)
    } else if (byte === closingBrace || byte === closingBracket) level -= 1
  }
  return shape
}

function countKeys(value: unknown): number {
  if (Array.isArray(value))
    return value.reduce((sum: number, item) => sum + countKeys(item), 0)
  if (!isObject(value)) return 0
  const values = Object.values(value)
  return values.reduce((sum: number, item) => sum + countKeys(item), values.length)
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export interface Orderer {
  /** App-Name as the provider sees it. */
  readonly application: string
  /** The digest of the partition. Undefined: the address is unknown, so the orderer has no quotes of its own. */
  readonly partition: string | undefined
  /** Whether the partition is a single address, not a place or all users. */
  readonly isAddress: boolean
}
