import type { Level } from './access.ts'
import type { Activity, SeenRequest } from './activity.ts'
import type { ApplicationsOrders } from './orders-by-application.ts'
import type { Outage } from './outages.ts'
import type { Recorder } from './recorder.ts'
import { type RefusedOrder, withoutClientData } from './refused-order.ts'
import type { OperationsView, ShownCoolDown } from './view.ts'

export interface StatusParts {
  view: OperationsView
  activity: Activity
  recorder: Recorder
  /** Whether both listeners accept connections; false again from the beginning of the shutdown. */
  isReady(): boolean
}

const maxShown = 20

/** The current state of the gateway. Who may not see requests gets no details of any. */
export function healthOf({ view, recorder, isReady }: StatusParts, level: Level) {
  const store = view.store()
  const { slowest } = recorder.history
  return {
    version: view.version,
    mode: view.mode,
    now: recorder.nowMs(),
    uptimeMs: Math.round(view.uptimeMs()),
    ready: isReady(),
    degraded: !store.up,
    upstreams: view
      .upstreams()
      .map((upstream) => ({ ...upstream, traffic: recorder.history.trafficOf(upstream.name) })),
    savings: recorder.history.savings,
    clock: view.clock(),
    store,
    cache: { entries: view.cache.entries, bytes: view.cache.bytes },
    ledger: { entries: view.ledgerEntries() },
    journal: view.journal(),
    coolDowns: summed(view.coolDowns()),
    inFlight: view.inFlight(),
    // A client may have chosen the id.
    slowest: level === 'full' || slowest === null ? slowest : { ...slowest, requestId: '' },
  }
}

/** GET /status. */
export function statusOf(parts: StatusParts, level: Level) {
  const { view, activity } = parts
  return {
    ...healthOf(parts, level),
    access: level,
    outages: shownOutages(parts.recorder.outages().current, level),
    ordersRefused: activity.refusedTotal,
    ordersReported: activity.reportedTotal,
    lastRefusals: shownRefusals(activity.refusals, level),
    refusedByApplication: shownApplications(parts, level),
    lastFailures: shownFailures(parts, level),
    coolDowns: { ...summed(view.coolDowns()), shown: shownCoolDowns(view.coolDowns(), level) },
    untrustedPeers: shownPeers(view.untrustedPeers(), level),
    otherHeaderPeers: shownOtherHeaders(view, level),
    settings: view.settings.map(({ name, value, source }) => ({ name, value, source })),
  }
}

/** GET /history: what was kept while no console was open. */
export function historyOf(recorder: Recorder) {
  const { history } = recorder
  return {
    seconds: history.seconds(),
    minutes: history.minutes(),
    outages: recorder.outages().past.map(({ id, what, upstream, traffic, since, until, isSevere }) => ({
      id,
      what,
      upstream,
      traffic,
      since,
      until,
      isSevere,
    })),
    events: recorder.eventsAfter(0),
  }
}

/** The pairs that fail and the peers that are not trusted are details of requests. */
export function shownOutages(outages: readonly Outage[], level: Level): readonly Outage[] {
  return level === 'full' ? outages : outages.map((outage) => ({ ...outage, names: [] }))
}

export function shownRefusals(refusals: readonly RefusedOrder[], level: Level): readonly RefusedOrder[] {
  if (level === 'full') return refusals
  return refusals.map(withoutClientData)
}

export function shownApplications(
  { activity, recorder }: StatusParts,
  level: Level,
): readonly ApplicationsOrders[] {
  return level === 'full' ? activity.ordersByApplication.refused(recorder.nowMs()) : []
}

/** The newest first. */
export function shownFailures({ activity }: StatusParts, level: Level): readonly SeenRequest[] {
  return level === 'full' ? activity.failed.all : []
}

/** For how many clients the provider is not asked, and until when at most. */
function summed(coolDowns: readonly ShownCoolDown[]) {
  return {
    clients: coolDowns.length,
    longestLeftMs: coolDowns.reduce((most, { leftMs }) => Math.max(most, leftMs), 0),
  }
}

function shownCoolDowns(coolDowns: readonly ShownCoolDown[], level: Level): readonly ShownCoolDown[] {
  const some = coolDowns.slice(0, maxShown)
  return level === 'full' ? some : some.map((one) => ({ ...one, application: '', address: '' }))
}

/** Peers are shown with their whole addresses: they are proxies, not people, and TRUST_PROXY needs the addresses. */
function shownPeers(peers: readonly string[], level: Level) {
  return { count: peers.length, peers: level === 'full' ? peers.slice(0, maxShown) : [] }
}

function shownOtherHeaders(view: OperationsView, level: Level) {
  const { peers, headers } = view.otherHeaderPeers()
  return { ...shownPeers(peers, level), headers }
}
