/**
 * The guard of float orders for the second time: a list of everything that clients were given, and the five rules
 * of docs/orders.md read over the whole list. It shares no code with `src`. That the last 1,000 prices count is in
 * test/orders/ledger.test.ts.
 */
export interface Given {
  id: string
  pair: string
  from: string
  requested: string
  to: string
  application: string
  partition: string | undefined
  givenAtMs: number
  /** When it ends. Its `expiry` is as much later as the clock of the provider's edge is ahead. */
  endsAtMs: number
  expiresAtMs: number
}

/** An answer that its client may take for a quote, and that the gateway cannot read. */
export interface Unreadable {
  pair: string
  requested: string
  /** The amount that the answer states, where it states another one than was asked for. */
  stated: string | undefined
  application: string
  partition: string | undefined
  givenAtMs: number
}

/** An amount as its order spells it. */
export interface Spelled {
  text: string
  isNumber: boolean
}

/** An order and who sends it. */
export interface Ordered {
  header?: string | undefined
  quoteId?: string | undefined
  bareId?: string | undefined
  pair: string
  from: Spelled
  /** `odd`: something that is not an amount. */
  to: Spelled | 'odd' | undefined
  application: string
  partition: string | undefined
  /** Whether its partition is a client address. A country is not, nor is the one partition of all clients. */
  isAddress: boolean
}

export interface Verdict {
  state: 'live' | 'expired' | 'unknown'
  rule: 'id' | 'exact' | 'pays' | 'fallen' | 'any' | 'none' | 'unreadable' | 'store-away'
  /** The quotes that the verdict may name. Several, where several end last. */
  quoteIds: readonly string[]
}

const retentionMs = 86_400_000
const recentMs = 15 * 60_000
const unreadableLifeMs = 5 * 60_000

/** What all clients were given, in the order in which it was noted. */
export class Past {
  readonly quotes: Given[] = []
  readonly unreadable: (Unreadable & { untilMs: number })[] = []
  readonly #livesMs: number[] = []

  /**
   * A quote that its client was given before changes nothing but that the earlier of its two ends counts. Given to another
   * client too, it is that one's own as well.
   */
  note(quote: Given): void {
    const known = this.quotes.find((other) => isSameQuote(other, quote))
    if (known === undefined) {
      this.quotes.push({ ...quote })
      this.#livesMs.push(quote.endsAtMs - quote.givenAtMs)
    } else known.endsAtMs = Math.min(known.endsAtMs, quote.endsAtMs)
  }

  noteUnreadable(answer: Unreadable): void {
    const lives = this.#livesMs.slice(-100)
    const lifeMs = lives.length === 0 ? unreadableLifeMs : Math.max(...lives)
    this.unreadable.push({ ...answer, untilMs: answer.givenAtMs + lifeMs })
  }

  /** What that client alone was given. */
  of(partition: string | undefined): Past {
    const own = new Past()
    const isOwn = (given: { partition: string | undefined }) =>
      partition !== undefined && given.partition === partition
    own.quotes.push(...this.quotes.filter(isOwn))
    own.unreadable.push(...this.unreadable.filter(isOwn))
    return own
  }
}

export interface At {
  nowMs: number
  marginMs: number
  /** Whether everything that other replicas noted is here. */
  othersKnown: boolean
}

/** The first rule that applies decides. */
export function decide(order: Ordered, past: Past, at: At): Verdict {
  const verdict = decideKnowingAll(order, past, at)
  // An order is then refused only by a quote that it names.
  if (!at.othersKnown && verdict.state === 'expired' && verdict.rule !== 'id')
    return unknown('store-away')
  return verdict
}

function decideKnowingAll(order: Ordered, past: Past, { nowMs, marginMs }: At): Verdict {
  const known = past.quotes.filter(({ endsAtMs }) => nowMs - endsAtMs < retentionMs)
  const lives = ({ endsAtMs }: Given) => endsAtMs - nowMs > marginMs
  const isRecent = (quote: Given) => !lives(quote) && nowMs - quote.endsAtMs < recentMs
  const isOwn = ({ partition }: Given) =>
    partition !== undefined && partition === order.partition
  const isOfApplication = ({ application }: OfTerms) => application === order.application
  const unreadable = past.unreadable.filter(
    (answer) =>
      isOfPair(order, answer) &&
      nowMs < answer.untilMs &&
      answer.partition === order.partition,
  )

  /** Live before expired, the orderer's own before those of its application, the one that ends last. */
  function by(rule: Verdict['rule'], quotes: readonly Given[]): Verdict {
    const state = quotes.some(lives) ? 'live' : 'expired'
    const sameState = quotes.filter((quote) => lives(quote) === (state === 'live'))
    const groups = [sameState.filter(isOwn), sameState.filter(isOfApplication), sameState]
    const best = groups.find((group) => group.length > 0) ?? []
    const endsLastMs = Math.max(...best.map(({ endsAtMs }) => endsAtMs))
    const named = best.filter(({ endsAtMs }) => endsAtMs === endsLastMs)
    return { state, rule, quoteIds: named.map(({ id }) => id) }
  }

  // 1. Named.
  const ids = [order.header, order.quoteId, order.bareId].filter((id) => id !== undefined)
  const named = known.filter(({ id }) => ids.includes(id))
  if (named.length > 0) return by('id', named)
  if (order.header !== undefined || order.quoteId !== undefined)
    return unknown(unreadable.length > 0 ? 'unreadable' : 'id')

  const candidates = known.filter((quote) => isCandidate(order, quote))
  const live = candidates.filter(lives)
  const over = candidates.filter((quote) => !lives(quote) && isOfApplication(quote))
  const stated = order.to === 'odd' ? undefined : order.to
  const digits = stated === undefined ? 0 : significantDigits(meant(stated))
  const hasExactly = ({ to }: Given) => stated !== undefined && isSame(stated, to)
  const roundsTo = ({ to }: Given) =>
    stated !== undefined && digits >= 5 && isRounded(meant(stated), to)
  const isOfAddress = (quote: Given) => isOwn(quote) && order.isAddress

  // 2. Exact. An unreadable answer matches whatever is stated, live.
  const exact = live.filter(hasExactly)
  if (exact.length > 0) return by('exact', exact)
  if (
    unreadable.some((answer) =>
      isOfTerms(order, answer, [answer.requested, answer.stated]),
    )
  )
    return unknown('unreadable')
  const wasExact = over.filter(
    (quote) =>
      hasExactly(quote) &&
      isRecent(quote) &&
      (digits >= 8 || (digits >= 6 && isOfAddress(quote))),
  )
  if (wasExact.length > 0) return by('exact', wasExact)

  // 3. It pays.
  const pays = (quote: Given) =>
    stated === undefined ||
    compare(quote.to, meant(stated)) >= 0 ||
    hasExactly(quote) ||
    roundsTo(quote)
  const paying = live.filter(pays)
  if (paying.length > 0) return by('pays', paying)

  // 4. It has fallen.
  const fallen = over.filter(
    (quote) =>
      isRecent(quote) &&
      isOfAddress(quote) &&
      digits >= 5 &&
      (hasExactly(quote) || roundsTo(quote)),
  )
  if (fallen.length > 0) return by('fallen', fallen)
  if (live.length > 0) return by('any', live)

  // 5. None.
  const spoken = over.filter(
    (quote) =>
      isOwn(quote) ||
      stated === undefined ||
      roundsTo(quote) ||
      (digits >= 5 && hasExactly(quote)),
  )
  return spoken.length > 0 ? by('none', spoken) : unknown('none')
}

type OfTerms = Pick<Given, 'pair' | 'application'>

const isOfPair = (order: Ordered, { pair }: OfTerms) =>
  pair.toLowerCase() === order.pair.toLowerCase()

function isOfTerms(
  order: Ordered,
  given: OfTerms,
  amounts: readonly (string | undefined)[],
): boolean {
  return given.application === order.application && isOfAmount(order, given, amounts)
}

function isOfAmount(
  order: Ordered,
  given: OfTerms,
  amounts: readonly (string | undefined)[],
): boolean {
  if (!isOfPair(order, given)) return false
  return amounts.some((amount) => amount !== undefined && isSame(order.from, amount))
}

/** Whether an order can mean a quote by its pair and amount. */
export function isCandidate(order: Ordered, quote: Given): boolean {
  return isOfAmount(order, quote, [quote.from, quote.requested])
}

const unknown = (rule: Verdict['rule']): Verdict => ({
  state: 'unknown',
  rule,
  quoteIds: [],
})

/** `units` x 10^-`decimals`, without zeros at the end: 289.60 has one decimal and four digits, 290 no decimal and two. */
interface Decimal {
  units: bigint
  decimals: number
}

const memo = new Map<string, Decimal>()

export function decimal(text: string): Decimal {
  const known = memo.get(text)
  if (known !== undefined) return known
  const [, whole = '', fraction = '', exponent = '0'] =
    /^(\d+)\.?(\d*)(?:e([+-]?\d+))?$/i.exec(text) ?? []
  if (whole === '') throw new Error(`not an amount: ${text}`)
  let units = BigInt(whole + fraction)
  let decimals = fraction.length - Number(exponent)
  for (; decimals < 0; decimals += 1) units *= 10n
  for (; decimals > 0 && units % 10n === 0n; decimals -= 1) units /= 10n
  memo.set(text, { units, decimals })
  return { units, decimals }
}

/** As it is written without an exponent and without zeros that say nothing. */
export function plain(text: string): string {
  const { units, decimals } = decimal(text)
  const digits = String(units).padStart(decimals + 1, '0')
  return decimals === 0
    ? digits
    : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

export function compare(left: string, right: string): number {
  const [one, other] = [decimal(left), decimal(right)]
  const common = Math.max(one.decimals, other.decimals)
  const difference = scaled(one, common) - scaled(other, common)
  return Number(difference > 0n) - Number(difference < 0n)
}

const scaled = ({ units, decimals }: Decimal, to: number) =>
  units * 10n ** BigInt(to - decimals)

/** A JSON number means every decimal of which it is the nearest double. */
export function isSame({ text, isNumber }: Spelled, amount: string): boolean {
  return compare(text, amount) === 0 || (isNumber && Number(text) === Number(amount))
}

/** What an amount says, in as few digits as do: its double has no more. */
export function meant({ text, isNumber }: Spelled): string {
  return isNumber ? String(Number(text)) : text
}

/** Zeros at the end are not counted. */
export function significantDigits(text: string): number {
  return String(decimal(text).units).replace(/0+$/, '').length
}

/** Whether the amount, cut to as many decimals as are stated, is what is stated, down or up: half up is one of the two. */
export function isRounded(stated: string, amount: string): boolean {
  const { units, decimals } = decimal(stated)
  const exact = decimal(amount)
  if (exact.decimals <= decimals) return compare(amount, stated) === 0
  const step = 10n ** BigInt(exact.decimals - decimals)
  return units === exact.units / step || units === (exact.units + step - 1n) / step
}

function isSameQuote(left: Given, right: Given): boolean {
  const names = [
    'id',
    'expiresAtMs',
    'partition',
    'pair',
    'application',
    'from',
    'requested',
    'to',
  ] as const
  return names.every((name) => left[name] === right[name])
}
