import type { Clock } from '../clock.ts'
import type { LoadedConfig } from '../config/config.ts'
import { factsOf, settingNames } from '../config/settings.ts'
import { headerValues } from '../http/headers.ts'
import { maskedAddress } from '../http/masked-address.ts'
import type { Activity, SeenRequest } from '../operations/activity.ts'
import type { Explanation, OperationsView, ShownSetting, UpstreamState } from '../operations/view.ts'
import type { NotedQuote, Verdict } from '../orders/ledger.ts'
import type { OrderTerms } from '../orders/order-terms.ts'
import { listQuotes } from '../quotes/quote-listing.ts'
import type { SharedStore } from '../replicas/store.ts'
import { type Exchange, type Exchanges, loggedPath } from '../routes/exchange.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { RefusedFloatOrder, SwapSide } from './swap.ts'

export interface OperationsSideParts {
  loaded: Pick<LoadedConfig, 'config' | 'sources'>
  clock: Clock
  version: string
  exchanges: Exchanges
  upstreams: Readonly<Record<string, Upstream | undefined>>
  swapSide: SwapSide
  sandbox: Sandbox | undefined
  sharedStore: SharedStore | undefined
  /** Undefined until the traffic listener listens. */
  trafficUrl(): string | undefined
}

/** What the operations listener may know of all the other parts. */
export function createOperationsView(parts: OperationsSideParts): OperationsView {
  const { clock, exchanges, sandbox, swapSide } = parts
  const { config, sources } = parts.loaded
  const { memory, evictions, ledger, providerClock, applicationNamed } = swapSide.inside
  const startedAtMs = performance.now()
  const baseUrls: Readonly<Record<string, string | undefined>> = {
    swap: config.swap.baseUrl,
    payments: config.payments.baseUrl,
    webhooks: config.webhooks.baseUrl,
  }

  function stateOf(upstream: Upstream): UpstreamState {
    const { name, breaker, inFlight } = upstream
    return {
      name,
      sandbox: baseUrls[name] === 'sandbox',
      breaker: breaker.state,
      retryAfterMs: Math.round(breaker.retryAfterMs),
      inFlight,
      connectionsMost: config.upstream.connections,
      queueMost: config.upstream.queue,
    }
  }

  return {
    version: parts.version,
    mode: Object.values(baseUrls).every((url) => url === undefined || url === 'sandbox') ? 'SANDBOX' : 'LIVE',
    settings: shownSettings(sources),
    uptimeMs: () => performance.now() - startedAtMs,
    upstreams: () =>
      Object.values(parts.upstreams).flatMap((upstream) => (upstream ? [stateOf(upstream)] : [])),
    clock() {
      const { estimateMs, lowMs, highMs } = providerClock.offset()
      return { estimateMs, lowMs: finite(lowMs), highMs: finite(highMs) }
    },
    cache: {
      get entries() {
        return memory.entries
      },
      get bytes() {
        return memory.bytes
      },
      list: (most) => listQuotes(memory.kept(), { nowMs: providerClock.latestMs(), most }),
      drop: (id) => evictions.drop((quote) => quote.id === id),
      dropAll: () => evictions.drop(() => true),
    },
    store: () =>
      parts.sharedStore ? { kind: 'valkey', up: parts.sharedStore.up } : { kind: 'memory', up: true },
    ledgerEntries: () => ledger.size,
    inFlight: () => exchanges.inFlight,
    untrustedPeers: () => [...exchanges.namedPeers],
    async explainOrder(body, application) {
      const explained = await swapSide.orders.explain(Buffer.from(body), applicationNamed(application))
      if (explained.problem !== undefined) return { decision: 'bad-order', detail: explained.problem }
      return explanationOf(explained.order, explained.verdict, {
        refusesUnknown: config.orders.unknownQuote === 'refuse' && explained.othersKnown,
        nowMs: clock.nowMs(),
        providerNowMs: providerClock.earliestMs(),
      })
    },
    sandbox: sandbox && { faults: () => sandbox.faults(), set: (next) => sandbox.faults(next) },
    traffic: {
      url: () => parts.trafficUrl()?.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:'),
      clientIpHeader: config.client.ipHeader,
      loopbackTrusted: config.client.trustProxy.some((entry) =>
        /^(loopback|127\.|0\.0\.0\.0\/|::)/.test(entry),
      ),
    },
  }
}

function shownSettings(sources: LoadedConfig['sources']): ShownSetting[] {
  return settingNames.map((name) => ({ name, meaning: factsOf(name).meaning, ...sources[name] }))
}

function explanationOf(
  order: OrderTerms,
  verdict: Verdict,
  context: { refusesUnknown: boolean; nowMs: number; providerNowMs: number },
): Explanation {
  const { pair, fromAmount, toAmount, quoteIds } = order
  const read = {
    pair: pair ?? null,
    fromAmount: fromAmount?.text ?? null,
    toAmount: toAmount === 'unreadable' ? 'unreadable' : (toAmount?.text ?? null),
    quoteIds,
  }
  if (verdict.state === 'unknown') {
    return {
      order: read,
      ...(context.refusesUnknown
        ? { decision: 'refused-unknown', detail: '409 quote-unknown: no quote seen here matches it.' }
        : { decision: 'forwarded-unknown', detail: 'Forwarded, though no quote seen here matches it.' }),
    }
  }
  const base = { order: read, matchedBy: verdict.matchedBy, quote: shownQuote(verdict.quote, context) }
  return verdict.state === 'live'
    ? { ...base, decision: 'forwarded-live', detail: 'Forwarded: its quote is live.' }
    : { ...base, decision: 'refused-expired', detail: '409 quote-expired: its quote is too old.' }
}

function shownQuote(quote: NotedQuote, { nowMs, providerNowMs }: { nowMs: number; providerNowMs: number }) {
  const { id, pairId, fromValue, requestedAmount, toValue, application, expiresAtMs, notedAtMs } = quote
  return {
    id,
    pair: pairId,
    amount: fromValue,
    requestedAmount,
    toAmount: toValue,
    application,
    ageMs: Math.max(0, nowMs - notedAtMs),
    leftMs: Math.round(expiresAtMs - providerNowMs),
  }
}

export interface Watching {
  onOver: (exchange: Exchange, over: { status: number; durationMs: number }) => void
  onOrderRefused: (refused: RefusedFloatOrder) => void
}

/** What the traffic side tells the console; while nobody looks, next to nothing. */
export function watchFor(activity: Activity, clock: Clock): Watching {
  return {
    onOver(exchange, { status, durationMs }) {
      if (!activity.watched) return
      const { cacheStatus, missed } = exchange
      const isHit = cacheStatus?.startsWith('quotegate; hit') ?? false
      activity.requestOver({ durationMs, isQuote: missed || cacheStatus !== undefined, isHit })
      if (activity.hasRoom(status)) activity.keep(seen(exchange, { status, durationMs, at: clock.nowMs() }))
    },
    onOrderRefused({ order, exchange, verdict, application }) {
      const expired = verdict.state === 'expired' ? verdict : undefined
      activity.orderRefused({
        at: clock.nowMs(),
        reason: expired === undefined ? 'unknown' : 'expired',
        pair: short(expired?.quote.pairId ?? order.pair ?? ''),
        amount: short(order.fromAmount?.text ?? ''),
        application: short(application),
        quoteId: expired?.quote.id ?? null,
        quoteAgeMs: expired === undefined ? null : Math.max(0, clock.nowMs() - expired.quote.notedAtMs),
        expiredForMs: expired === undefined ? null : Math.round(expired.expiredForMs),
        requestId: exchange.id,
      })
    },
  }
}

function seen(
  exchange: Exchange,
  { status, durationMs, at }: { status: number; durationMs: number; at: number },
): SeenRequest {
  const { area, request, cacheStatus, upstreamMs } = exchange
  const passed = area !== 'none' && cacheStatus === undefined && status !== 0
  return {
    at,
    method: request.method ?? '',
    route: area,
    path: short(loggedPath(exchange) ?? ''),
    status,
    cacheStatus: cacheStatus ?? null,
    durationMs: Math.round(durationMs * 1_000) / 1_000,
    upstreamMs: upstreamMs ?? null,
    requestId: exchange.id,
    // Not read for the console's sake: reading it is counted, and may warn.
    client: maskedAddress(exchange.clientRead?.address ?? request.socket.remoteAddress),
    application: short(headerValues(request.rawHeaders, 'app-name').join(', ')),
    why: exchange.why ?? (passed ? 'Passed on to the upstream and answered by it.' : ''),
  }
}

/** Whatever a client sends, a row stays a row. */
function short(text: string): string {
  return text.length <= 200 ? text : `${text.slice(0, 200)}…`
}

function finite(ms: number): number | null {
  return Number.isFinite(ms) ? ms : null
}
