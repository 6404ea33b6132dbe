import { foldedPair, type HoldScope, type ShownHold } from '../memory/holds.ts'
import { Refused } from './access.ts'

const maxMinutes = 1_440
const maxReasonLength = 500
const maxNameLength = 200

type Body = Readonly<Record<string, unknown>>

/** What the body of an action is to hold. Throws what would be right. */
export function readHold(body: Body) {
  refuseOthers(body, ['pair', 'application', 'quotes', 'reason', 'minutes'])
  const { quotes = false, reason, minutes } = body
  if (typeof reason !== 'string' || reason.trim() === '')
    throw bad('reason', 'a text that says why, because callers get it')
  if (reason.length > maxReasonLength)
    throw bad('reason', `a text of at most ${maxReasonLength} characters`)
  const isTime = typeof minutes === 'number' && minutes > 0 && minutes <= maxMinutes
  if (!isTime) throw bad('minutes', `a number above 0, at most ${maxMinutes}, a day`)
  if (typeof quotes !== 'boolean')
    throw bad('quotes', 'true, to hold quotes too, or false')
  return {
    scope: scopeOf(body),
    terms: {
      quotes,
      reason: reason.trim(),
      lastsMs: Math.max(1, Math.round(minutes * 60_000)),
    },
  }
}

/** Which hold the body of an action names. */
export function readScope(body: Body): HoldScope {
  refuseOthers(body, ['pair', 'application'])
  return scopeOf(body)
}

/** A name that is misspelt would hold everything. */
function refuseOthers(body: Body, known: readonly string[]): void {
  const other = Object.keys(body).find((name) => !known.includes(name))
  if (other !== undefined)
    throw new Refused(400, `It has ${other}. The members are ${known.join(', ')}.`)
}

function scopeOf({ pair, application }: Body): HoldScope {
  if (pair !== undefined && !(typeof pair === 'string' && /^[\w.~:-]{1,64}$/.test(pair)))
    throw bad('pair', 'a pair such as ETH_USDC; without it, all pairs are meant')
  const isName =
    typeof application === 'string' &&
    application.trim() !== '' &&
    application.length <= maxNameLength
  if (application !== undefined && !isName)
    throw bad(
      'application',
      `an App-Name of at most ${maxNameLength} characters; without it, all applications are meant`,
    )
  return {
    pair: pair === undefined ? undefined : foldedPair(pair as string),
    application: application === undefined ? undefined : (application as string).trim(),
  }
}

function bad(name: string, right: string): Refused {
  return new Refused(400, `${name} has to be ${right}.`)
}

/** What is held, as a person says it. */
export function whatIsHeld({
  pair,
  application,
  quotes,
}: Pick<ShownHold, 'pair' | 'application' | 'quotes'>): string {
  const what = quotes ? 'quotes and orders' : 'orders'
  const ofPair = pair === null ? 'of all pairs' : `of ${pair}`
  return `${what} ${ofPair}${application === null ? '' : ` by ${application}`}`
}
