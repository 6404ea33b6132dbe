// The guard of float orders once more, as simply as it can be said: a list of all quotes, and the six rules one after
// the other over all of them. It shares no code with src/orders.

import type { Decision, Given, Odd, Ordered, Spelled } from './guard-histories.ts'

const dayMs = 86_400_000
const recentMs = 900_000
const places = 40

function scaled(text: string): bigint {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e')
  const [integer = '', fraction = ''] = mantissa.split('.')
  return BigInt(integer + fraction) * 10n ** BigInt(places - fraction.length + Number(exponent))
}

function isSame({ text, isNumber }: Spelled, decimal: string): boolean {
  if (scaled(text) === scaled(decimal)) return true
  // What a browser makes of it: the shortest spelling of its double.
  return isNumber && scaled(String(Number(decimal))) === scaled(text)
}

function isRounded({ text }: Spelled, decimal: string): boolean {
  const [mantissa = '', exponent = '0'] = text.split('e')
  const decimals = Math.max(0, (mantissa.split('.')[1] ?? '').length - Number(exponent))
  const unit = 10n ** BigInt(places - decimals)
  const difference = scaled(decimal) - scaled(text)
  return -unit < difference && difference < unit
}

const digitsOf = (text: string) =>
  (text.toLowerCase().split('e')[0] ?? '').replace('.', '').replace(/^0+/, '')

interface Past {
  given: readonly Given[]
  odd: readonly Odd[]
  nowMs: number
  marginMs: number
}

export function decide(order: Ordered, past: Past): Decision {
  const { given, nowMs, marginMs } = past
  const known = given.filter(({ endsAtMs }) => nowMs < endsAtMs + dayMs)
  const isLive = ({ endsAtMs }: Given) => nowMs < endsAtMs - marginMs
  const named = known.filter(({ id }) => id === order.quoteId || id === order.bareId)
  if (named.length > 0) return { state: named.some(isLive) ? 'live' : 'expired', rule: 'id' }
  const isOdd = isDoubted({ requested: order.from.text }, order, past)
  if (order.quoteId !== undefined) return { state: 'unknown', rule: isOdd ? 'unreadable' : 'id' }
  const candidates = known.filter(
    ({ pair, application, from, requested }) =>
      pair === order.pair &&
      application === order.application &&
      (isSame(order.from, from) || isSame(order.from, requested)),
  )
  const decision = decideAmong(candidates, order, past)
  if (decision.rule === 'nothing' && isOdd) return { state: 'unknown', rule: 'unreadable' }
  if (decision.state !== 'expired') return decision
  const undoubted = candidates.filter((quote) => isLive(quote) || !isDoubted(quote, order, past))
  const certain = decideAmong(undoubted, order, past)
  return certain.state === 'unknown' ? { state: 'unknown', rule: 'unreadable' } : certain
}

function decideAmong(candidates: Given[], order: Ordered, { nowMs, marginMs }: Past): Decision {
  const isLive = ({ endsAtMs }: Given) => nowMs < endsAtMs - marginMs
  const isOwn = ({ partition }: Given) => partition !== undefined && partition === order.partition
  const isNear = (quote: Given) => isLive(quote) || (isOwn(quote) && nowMs < quote.endsAtMs + recentMs)
  const amount = order.to === 'odd' ? undefined : order.to
  const digits = digitsOf(amount?.text ?? '')
  const isOneQuotes = digits.replace(/0+$/, '').length >= 8
  const exact = candidates.filter((quote) => amount && isSame(amount, quote.to))
  const rounded = candidates.filter((quote) => amount && digits.length >= 5 && isRounded(amount, quote.to))
  const isSixth = candidates.some(isLive) || order.to === undefined || candidates.some(isOwn)
  const rules: [quotes: Given[], rule: string][] = [
    [exact.filter((quote) => isOneQuotes || isNear(quote)), 'exact'],
    [rounded.filter(isNear), 'rounded'],
    [candidates.filter((quote) => isOwn(quote) && isLive(quote)), 'own-live'],
    [exact, 'exact'],
    [rounded, 'rounded'],
    [isSixth ? candidates : [], 'pair-and-amount'],
  ]
  const [quotes, rule] = rules.find(([deciders]) => deciders.length > 0) ?? [[], 'nothing']
  if (quotes.length === 0) return { state: 'unknown', rule }
  return { state: quotes.some(isLive) ? 'live' : 'expired', rule }
}

/** Whether the orderer had an odd answer, for which the order may be, and none that was read since. */
function isDoubted(quote: Pick<Given, 'requested'>, order: Ordered, { given, odd, nowMs }: Past): boolean {
  const lives = given.map(({ endsAtMs, givenAtMs }) => endsAtMs - givenAtMs).filter((lifeMs) => lifeMs > 0)
  const forMs = lives.length === 0 ? 300_000 : Math.max(...lives.slice(-100))
  const { pair, application, partition = 'nobody' } = order
  const isOrderers = (one: Pick<Odd, 'pair' | 'application' | 'partition'>) =>
    one.pair === pair && one.application === application && one.partition === partition
  return odd.some(({ requested, givenAtMs, ...rest }) => {
    const isAlike = (amount: string) => Number(amount) === Number(requested)
    const isReadSince = given.some(
      (other) =>
        isOrderers(other) && other.givenAtMs > givenAtMs && (isAlike(other.requested) || isAlike(other.from)),
    )
    const isMeant = isOrderers(rest) && (isAlike(quote.requested) || isAlike(order.from.text))
    return isMeant && !isReadSince && givenAtMs >= nowMs - forMs
  })
}
