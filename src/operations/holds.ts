import type { Listener } from '../events.ts'
import {
  foldedPair,
  type HoldScope,
  type Holds,
  maxHolds,
  type ShownHold,
} from '../memory/holds.ts'
import type { Logger } from '../process/logger.ts'
import { Refused } from './access.ts'

const maxMinutes = 1_440
const maxReasonLength = 500
const maxNameLength = 200

type ActionBody = Readonly<Record<string, unknown>>

/** Begins a hold, or replaces it. */
export async function hold(holds: Holds, body: ActionBody) {
  const { scope, terms } = readHold(body)
  const isShared = await holds.hold(scope, terms)
  if (isShared === undefined)
    throw new Refused(409, `There are ${maxHolds} holds and releases already.`)
  return { holds: holds.list, reach: reachOf(isShared) }
}

/** Ends a hold. */
export async function release(holds: Holds, body: ActionBody) {
  const scope = readScope(body)
  const isShared = await holds.release(scope)
  if (isShared === undefined) {
    const { pair = null, application = null } = scope
    const what = whatIsHeld({ pair, application, quotes: false })
    throw new Refused(404, `No hold of ${what} is in force here.`)
  }
  return { holds: holds.list, reach: reachOf(isShared) }
}

function reachOf(isShared: boolean): string {
  return isShared ? 'at every replica within two seconds' : 'at this replica only'
}

/** Reads a hold. Throws what the body should be. */
function readHold(body: ActionBody) {
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

function readScope(body: ActionBody): HoldScope {
  refuseOthers(body, ['pair', 'application'])
  return scopeOf(body)
}

/** A misspelt name would hold everything. */
function refuseOthers(body: ActionBody, known: readonly string[]): void {
  const other = Object.keys(body).find((name) => !known.includes(name))
  if (other !== undefined)
    throw new Refused(400, `It has ${other}. The members are ${known.join(', ')}.`)
}

function scopeOf({ pair, application }: ActionBody): HoldScope {
  if (
    pair !== undefined &&
    !(typeof pair === 'string' && /^(?=.*[\w~:-])[\w.~:-]{1,64}$/.test(pair))
  )
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

/** What is held, in a person's words. */
export function whatIsHeld({
  pair,
  application,
  quotes,
}: Pick<ShownHold, 'pair' | 'application' | 'quotes'>): string {
  const what = quotes ? 'quotes and orders' : 'orders'
  const ofPair = pair === null ? 'of all pairs' : `of ${pair}`
  return `${what} ${ofPair}${application === null ? '' : ` by ${application}`}`
}

export function logHolds(log: Logger): Listener {
  return {
    holdBegan(hold) {
      log.warn({ ...hold }, `held: ${whatIsHeld(hold)}: ${hold.reason}`)
    },
    holdEnded(hold, how) {
      log.info({ ...hold, how }, `no longer held: ${whatIsHeld(hold)}`)
    },
  }
}
