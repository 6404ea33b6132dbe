import type { Level } from './access.ts'
import type { Activity, RefusedOrder } from './activity.ts'
import type { OperationsView, ShownCoolDown } from './view.ts'

export interface StatusParts {
  view: OperationsView
  activity: Activity
  isReady(): boolean
}

/** The current state of the gateway, without details of any request. */
export function healthOf({ view, isReady }: StatusParts) {
  const store = view.store()
  return {
    version: view.version,
    mode: view.mode,
    uptimeMs: Math.round(view.uptimeMs()),
    ready: isReady(),
    degraded: !store.up,
    upstreams: view.upstreams(),
    clock: view.clock(),
    store,
    cache: { entries: view.cache.entries, bytes: view.cache.bytes },
    ledger: { entries: view.ledgerEntries() },
    state: view.state(),
    coolDowns: summed(view.coolDowns()),
    inFlight: view.inFlight(),
    slowest: view.slowest(),
  }
}

/** GET /status. */
export function statusOf(parts: StatusParts, level: Level) {
  const { view, activity } = parts
  return {
    ...healthOf(parts),
    access: level,
    ordersRefused: activity.refusedTotal,
    lastRefusals: shownRefusals(activity.refusals, level),
    coolDowns: { ...summed(view.coolDowns()), shown: shownCoolDowns(view.coolDowns(), level) },
    untrustedPeers: shownPeers(view, level),
    settings: view.settings.map(({ name, value, source }) => ({ name, value, source })),
  }
}

export function shownRefusals(refusals: readonly RefusedOrder[], level: Level): readonly RefusedOrder[] {
  if (level === 'full') return refusals
  return refusals.map((order) => ({
    ...order,
    pair: '',
    amount: '',
    application: '',
    quoteId: null,
    requestId: '',
  }))
}

/** How many clients and applications the provider is not asked for, and until when at most. */
function summed(coolDowns: readonly ShownCoolDown[]) {
  return {
    addresses: coolDowns.filter(({ scope }) => scope === 'address').length,
    applications: coolDowns.filter(({ scope }) => scope === 'application').length,
    longestLeftMs: coolDowns.reduce((most, { leftMs }) => Math.max(most, leftMs), 0),
  }
}

function shownCoolDowns(coolDowns: readonly ShownCoolDown[], level: Level): readonly ShownCoolDown[] {
  const some = coolDowns.slice(0, 20)
  return level === 'full' ? some : some.map((one) => ({ ...one, application: '', address: null }))
}

/** Peers are shown with their whole addresses: they are proxies, not people, and TRUST_PROXY needs the addresses. */
export function shownPeers(view: OperationsView, level: Level) {
  const peers = view.untrustedPeers()
  return { count: peers.length, peers: level === 'full' ? peers.slice(0, 20) : [] }
}
