import type { Clock } from '../clock.ts'
import { upstreamTable } from '../http/upstreams.ts'
import type { Breaker, BreakerName, Traffic } from '../upstream/breakers.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { History } from './history.ts'
import { failureText, type Logged } from './outages.ts'
import type { Failures } from './recent-calls.ts'
import { notableShare, percent, troubles } from './trouble-table.ts'

/** A breaker opens within 2.5 s of failures, and then its sentence is right. */
const minFailingMs = 5_000
/** A sentence stays until its share is this much below the bound, so that it does not come and go there. */
const stays = 0.8
/** If a share s of calls fails, 7/s calls without a failure are chance once in a thousand times. */
const timesWithoutFailure = 7

export interface Failing {
  readonly traffic: Traffic
  readonly isSevere: boolean
  /** The share of the last minute's calls that failed. Undefined: a breaker stopped them. */
  readonly share: number | undefined
  readonly reason: string
  readonly sinceMs: number | undefined
  readonly logged: Logged | undefined
}

type Told = Pick<Failing, 'isSevere' | 'reason' | 'logged' | 'share'>

/** Finds, at each call, the kinds of requests that fail: stopped by a breaker, or by their share. */
export function createFailing(
  upstream: Upstream,
  { clock, history }: { clock: Clock; history: History },
): () => Failing[] {
  const kinds: readonly Traffic[] =
    upstreamTable[upstream.name].requests === 'by-kind'
      ? ['quotes', 'orders', 'rest']
      : ['rest']
  const told = new Map<Traffic, Told>()
  /** Failures up to this slice were reported, by a breaker or a sentence that is over. */
  const saidUntil = new Map<Traffic, number>()

  return () => kinds.flatMap((traffic) => stopped(traffic) ?? byShare(traffic) ?? [])

  function stopped(traffic: Traffic): Failing | undefined {
    const outage = outageOf(upstream, traffic)
    if (outage === undefined) return undefined
    saidUntil.set(traffic, history.slice)
    const { sinceMs, lastFailure = 'no answer' } = outage
    const what = nameOf(upstream, traffic)
    const text = `${what}: all that were asked for fail (${lastFailure})`
    // The log already has lines about all breakers but the pairs' own.
    const isOfPairs =
      traffic === 'quotes' && !isOpen(upstream.breakers.states.connections)
    return {
      traffic,
      isSevere: true,
      share: undefined,
      reason: lastFailure,
      sinceMs,
      logged: isOfPairs ? { what, reason: lastFailure, text } : told.get(traffic)?.logged,
    }
  }

  function byShare(traffic: Traffic): Failing | undefined {
    const before = told.get(traffic)
    if (before !== undefined && worksAgain(traffic, before))
      saidUntil.set(traffic, history.slice - 2)
    const { calls = 0, failures = [] } =
      history.failuresOf(upstream.name, traffic, saidUntil.get(traffic)) ?? {}
    const found = judge(rowOf(traffic), calls, failures, before)
    const isNew = before === undefined
    if (
      found === undefined ||
      (isNew && clock.steadyMs() - found.sinceMs < minFailingMs) ||
      // Stopped pairs have their own sentence, and are part of this share.
      (!found.isSevere && traffic === 'quotes' && upstream.breakers.quotesOutage())
    ) {
      told.delete(traffic)
      return undefined
    }
    const what = nameOf(upstream, traffic)
    const { reason } = found
    const text = `${what}: ${rowOf(traffic).says(found.share, reason)}`
    const failing = { ...found, traffic, logged: { what, reason, text } }
    told.set(traffic, failing)
    return failing
  }

  /** Whether there were enough calls in ten seconds or more, and none failed. */
  function worksAgain(traffic: Traffic, { share = 1 }: Told): boolean {
    const { calls = 0, failures = [] } =
      history.failuresOf(upstream.name, traffic, history.slice - 2) ?? {}
    return (
      calls * share >= timesWithoutFailure &&
      failures.every(({ kind }) => kind === 'usable')
    )
  }
}

const isOpen = (breaker: Breaker | undefined) =>
  breaker !== undefined && breaker.state !== 'closed'

/** Undefined: the traffic is not stopped. */
function outageOf({ breakers, lastFailures }: Upstream, traffic: Traffic) {
  const { connections } = breakers.states
  const lastOf = (what: BreakerName | Traffic) => {
    const last = lastFailures[what]
    return last && failureText(last.failure, last.afterMs)
  }
  if (isOpen(connections))
    return { sinceMs: connections.failingSinceMs, lastFailure: lastOf('connections') }
  if (traffic === 'quotes') {
    const { triedPairs, sinceMs } = breakers.quotesOutage() ?? {}
    return triedPairs === undefined
      ? undefined
      : { sinceMs, lastFailure: lastOf('quotes') }
  }
  const breaker = breakers.states[traffic]
  return isOpen(breaker)
    ? { sinceMs: breaker?.failingSinceMs, lastFailure: lastOf(traffic) }
    : undefined
}

/**
 * Red above a half, like the alerts. Amber above a tenth, without answers that refuse single users: at night a few
 * users in a restricted place are a tenth of all calls.
 */
function judge(
  { limits }: ReturnType<typeof rowOf>,
  calls: number,
  failures: readonly Failures[],
  before: Told | undefined,
) {
  const unusable = failures.filter(({ kind }) => kind !== 'usable')
  const own = unusable.filter(({ kind }) => kind === 'failure')
  for (const [isSevere, bound, counted] of [
    [true, limits.share, unusable],
    [false, notableShare, own],
  ] as const) {
    const count = counted.reduce((sum, one) => sum + one.count, 0)
    const share = Math.min(1, count / calls)
    const wasSaid = before !== undefined && (before.isSevere || !isSevere)
    const [most] = counted
    if (most === undefined || count <= limits.failures) continue
    if (share <= bound * (wasSaid ? stays : 1)) continue
    // Reasons of similar frequency would take turns.
    const known = counted.find(({ reason }) => reason === before?.reason)
    const { reason } = known !== undefined && known.count * 2 >= most.count ? known : most
    const sinceMs = Math.min(...counted.map(({ firstMs }) => firstMs))
    return { isSevere, share, reason, sinceMs }
  }
  return undefined
}

function nameOf({ name }: Upstream, traffic: Traffic): string {
  if (upstreamTable[name].requests === 'alike') return name
  return traffic === 'rest' ? 'the rest of /v3' : `${name} ${traffic}`
}

const rowOf = (traffic: Traffic) =>
  troubles[traffic === 'quotes' ? 'no-quotes' : 'failing']

/** One sentence for all failing kinds. */
export function sentenceOf(upstream: Upstream, failing: readonly Failing[]) {
  const [only, ...others] = failing
  if (only?.share !== undefined && others.length === 0) {
    const { traffic, share, reason } = only
    const name = nameOf(upstream, traffic)
    return { name, share, says: rowOf(traffic).says(share, reason) }
  }
  const name = `The ${upstream.name} API`
  const reasons = new Set(failing.map(({ reason }) => reason))
  const common = reasons.size === 1 ? ` (${only?.reason})` : ''
  const rest = failing.length === 3 ? 'everything else' : 'other requests'
  const isWhole = ({ share = 1 }: Failing) => share > 0.995
  // Whole kinds first: `12 % of quotes and orders` would be 12 % of both.
  const wholeFirst = [
    ...failing.filter(isWhole),
    ...failing.filter((one) => !isWhole(one)),
  ]
  const parts = wholeFirst.map((one) => {
    const what = one.traffic === 'rest' ? rest : one.traffic
    const some = isWhole(one) ? what : `${percent(one.share ?? 1)} of ${what}`
    return common === '' ? `${some} (${one.reason})` : some
  })
  const isAll = upstreamTable[upstream.name].requests === 'alike'
  const says = troubles.upstream.says(common, isAll ? '' : listed(parts))
  return { name, says, text: `${name} ${says}` }
}

function listed(parts: readonly string[]): string {
  return parts.length < 2
    ? parts.join('')
    : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`
}
