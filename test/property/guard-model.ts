/**
 * The guard of float orders for the second time: a list of everything that users were given, and the five sentences of
 * docs/orders.md read over the whole list. The model shares no code with `src`. It has no bounded structure but the 1,000
 * live prices of sentence 3, which are a rule.
 */
export interface Given {
  id: string
  pair: string
  from: string
  requested: string
  to: string
  /** Whether `from` and `to` are JSON numbers. */
  hasNumbers: boolean
  application: string
  partition: string | undefined
  givenAtMs: number
  /** When it ends. Its `expiry` is as much later as the clock of the provider's edge is ahead. */
  endsAtMs: number
  expiresAtMs: number
}

/** An answer that its caller may take for a quote, and that the gateway cannot read. */
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
  /** Whether its partition is a user's address. A country is not, nor is the one partition of all users. */
  isAddress: boolean
}

export interface Verdict {
  state: 'live' | 'expired' | 'unknown'
  rule: 'id' | 'exact' | 'pays' | 'fallen' | 'any' | 'none' | 'unreadable' | 'store-away'
  /** The quotes that the verdict may name. Several, where several end together. */
  quoteIds: readonly string[]
}

const retentionMs = 86_400_000
const recentMs = 15 * 60_000
const unreadableLifeMs = 5 * 60_000
/** That many live prices are looked at for one that pays, the newest first. */
const livePricesSearched = 1_000

/** What all users were given, in the order in which it was noted. */
export class Past {
  readonly quotes: Given[] = []
  readonly unreadable: (Unreadable & { untilMs: number })[] = []
  readonly #livesMs: number[] = []

  /**
   * A quote that its user was given before changes nothing but that the earlier of its two ends counts. Given to another
   * user too, it is that one's own as well.
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
}

export interface At {
  nowMs: number
  marginMs: number
  /** Whether everything that other replicas noted is here. */
  othersKnown: boolean
}

/** The first sentence that applies decides. */
export function decide(order: Ordered, past: Past, at: At): Verdict {
  const verdict = decideKnowingAll(order, past, at)
  // An order is then refused only by a quote that it names.
  if (!at.othersKnown && verdict.state === 'expired' && verdict.rule !== 'id')
    return unknown('store-away')
  return verdict
}

function decideKnowingAll(order: Ordered, past: Past, at: At): Verdict {
  const { quotes, unreadable } = readingOf(order, past, at)
  const live = quotes.filter((quote) => quote.isCandidate && quote.isLive)
  const over = quotes.filter(
    (quote) => quote.isCandidate && !quote.isLive && quote.isSameApplication,
  )
  const { digits, isStated } = statedBy(order)

  // 1. The order names a quote.
  const ids = [order.header, order.quoteId, order.bareId].filter((id) => id !== undefined)
  const named = quotes.filter(({ id }) => ids.includes(id))
  const namedLive = named.filter(({ isLive }) => isLive)
  if (namedLive.length > 0) return verdict('live', 'id', namedLive)
  if (named.length > 0) return verdict('expired', 'id', named)
  if (order.header !== undefined || order.quoteId !== undefined)
    return unknown(unreadable.some(({ isOfPair }) => isOfPair) ? 'unreadable' : 'id')

  // 2. A quote has exactly the stated amount.
  const exactLive = live.filter(({ isExact }) => isExact)
  if (exactLive.length > 0) return verdict('live', 'exact', exactLive)
  if (unreadable.some(({ isOfTerms }) => isOfTerms)) return unknown('unreadable')
  const exactPast = over.filter(
    ({ isExact, isRecent, isOwn }) =>
      isExact && isRecent && (digits >= 8 || (digits >= 6 && isOwn && order.isAddress)),
  )
  if (exactPast.length > 0) return verdict('expired', 'exact', exactPast)

  // 3. A live quote pays.
  const pays = (quote: Read) =>
    !isStated || quote.givesAtLeast || (digits >= 5 && quote.isRounded)
  const firstSearched = live.length - livePricesSearched
  const searched = live.filter(({ isOwn }, index) => isOwn || index >= firstSearched)
  const paying = searched.filter(pays)
  const fallen = over.filter(
    (quote) =>
      quote.isRecent &&
      quote.isOwn &&
      order.isAddress &&
      digits >= 5 &&
      (quote.isExact || quote.isRounded),
  )
  if (paying.length > 0) return verdict('live', 'pays', paying)

  // 4. The price has fallen.
  if (fallen.length > 0 && live.length <= livePricesSearched)
    return verdict('expired', 'fallen', fallen)
  if (live.length > 0) return verdict('live', 'any', live)

  // 5. None lives.
  const refusing = over.filter(
    ({ isOwn, isExact, isRounded }) =>
      isOwn || !isStated || (digits >= 5 && (isExact || isRounded)),
  )
  return refusing.length > 0 ? verdict('expired', 'none', refusing) : unknown('none')
}

/** A quote as an order sees it. */
export interface Read extends Given {
  isCandidate: boolean
  isSameApplication: boolean
  isOwn: boolean
  isLive: boolean
  /** Over for less than 15 minutes, or with less than the margin left. */
  isRecent: boolean
  isExact: boolean
  isRounded: boolean
  givesAtLeast: boolean
}

/** What is still known of the quotes and of the unreadable answers of its partition, as the order sees them. */
export function readingOf(order: Ordered, past: Past, { nowMs, marginMs }: At) {
  const { pair, application, partition } = order
  const { stated } = statedBy(order)
  const isOfPair = (given: { pair: string }) =>
    given.pair.toLowerCase() === pair.toLowerCase()
  const isFrom = (amount: string | undefined, isNumber = false) =>
    amount !== undefined && isSame(order.from, amount, isNumber)
  const quotes = past.quotes
    .filter(({ endsAtMs }) => nowMs - endsAtMs < retentionMs)
    .map((quote): Read => {
      const isExact = stated !== undefined && isSame(stated, quote.to, quote.hasNumbers)
      const isLive = quote.endsAtMs - nowMs > marginMs
      return {
        ...quote,
        isCandidate:
          isOfPair(quote) &&
          (isFrom(quote.from, quote.hasNumbers) || isFrom(quote.requested)),
        isSameApplication: quote.application === application,
        isOwn: partition !== undefined && quote.partition === partition,
        isLive,
        isRecent: !isLive && nowMs - quote.endsAtMs < recentMs,
        isExact,
        isRounded: stated !== undefined && isRounded(meant(stated), quote.to),
        givesAtLeast:
          isExact || (stated !== undefined && compare(quote.to, meant(stated)) >= 0),
      }
    })
  const unreadable = past.unreadable
    .filter((given) => nowMs < given.untilMs && given.partition === partition)
    .map((given) => ({
      isOfPair: isOfPair(given),
      isOfTerms:
        isOfPair(given) &&
        given.application === application &&
        [given.requested, given.stated].some((amount) => isFrom(amount)),
    }))
  return { quotes, unreadable }
}

/** The amount that an order states. What is not an amount states none. */
export function statedBy({ to }: Ordered) {
  const stated = to === 'odd' ? undefined : to
  const digits = stated === undefined ? 0 : significantDigits(meant(stated))
  return { stated, digits, isStated: stated !== undefined }
}

const verdict = (
  state: Verdict['state'],
  rule: Verdict['rule'],
  deciding: readonly Read[],
): Verdict => ({ state, rule, quoteIds: bestOf(deciding).map(({ id }) => id) })

/** The orderer's own before the same application's, and that before the last to end: several may end together. */
function bestOf(deciding: readonly Read[]): readonly Read[] {
  const first = (quotes: readonly Read[], isBefore: (quote: Read) => boolean) =>
    quotes.some(isBefore) ? quotes.filter(isBefore) : quotes
  const own = first(deciding, ({ isOwn }) => isOwn)
  const best = first(own, ({ isSameApplication }) => isSameApplication)
  const endsLastMs = Math.max(...best.map(({ endsAtMs }) => endsAtMs))
  return best.filter(({ endsAtMs }) => endsAtMs === endsLastMs)
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

/** A JSON number is every decimal of which it is the nearest double, however many digits spell it. A string is one decimal. */
export function isSame(
  { text, isNumber }: Spelled,
  amount: string,
  isAmountNumber = false,
): boolean {
  const isOneNumber = isNumber || isAmountNumber
  return compare(text, amount) === 0 || (isOneNumber && Number(text) === Number(amount))
}

/** The decimal whose digits count: the shortest one of a JSON number, so that 0.10000000000000001 is 0.1. */
export const meant = ({ text, isNumber }: Spelled) =>
  isNumber ? String(Number(text)) : text

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
    'hasNumbers',
  ] as const
  return names.every((name) => left[name] === right[name])
}
