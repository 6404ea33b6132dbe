import type { Outage } from './schemas.ts'

type Severity = 'critical' | 'warning'

interface TroubleRow {
  /** The alert in grafana/alerts.yml; absent: no metric says as much. */
  readonly alert?: string
  /** Tells rules of one name apart. */
  readonly window?: string
  /** `critical`: a person is needed now, and the page is red. `warning` waits for the morning, in amber. */
  readonly severity: Severity
  /** How long the rule waits. The page does not. */
  readonly patience?: string
  /** The numbers in the rule's expression, in order, and on the page. */
  readonly limits: Readonly<Record<string, number>>
  /** The section of docs/runbook.md. Default: the alert's name. */
  readonly section?: string
  /** What happened to concerned requests; absent: the page has no sentence. */
  readonly concerned?: Outage['concerned']
  /** Whether the page reports it. Default: at one case, or above the share of `limits`. */
  when?(...numbers: never[]): boolean
  /** The page's sentence, which follows the subject's name. */
  says?(...parts: never[]): string
}

/** One failure of three does not make an outage. */
const failures = 5
const slow = { timesUsual: 2, moreSeconds: 0.5, historyHours: 1, calls: 20 }
const clock = { offsetSeconds: 2 }
const unknownOrders = { share: 0.1, timesUsual: 2, always: 0.5, orders: 5 }

const addresses = {
  severity: 'warning',
  limits: {},
  section: 'users-look-as-if-they-were-one',
  concerned: 'misplaced',
} as const

/** An alert for each pace at which a month's allowed failures are used up. */
function objective<Name extends string>(name: Name, alert: string, allowed: number) {
  const rowOf = (window: string, pace: number, severity: Severity, patience: string) => ({
    alert,
    window,
    severity,
    patience,
    limits: { share: pace * allowed, failures },
  })
  type Pace = 'fast' | 'slow' | 'long'
  return {
    [`${name}-fast`]: rowOf('1h', 14.4, 'critical', '2m'),
    [`${name}-slow`]: rowOf('6h', 6, 'warning', '15m'),
    [`${name}-long`]: rowOf('3d', 1, 'warning', '1h'),
  } as Record<`${Name}-${Pace}`, ReturnType<typeof rowOf>>
}

/**
 * All that may be wrong: when, in which words, how severe, and its section of the runbook. Console, /status, readiness
 * and dashboard read this table, and grafana/alerts.yml and docs/runbook.md are tested against it.
 */
export const troubles = {
  upstream: {
    alert: 'QuotegateBreakerOpen',
    severity: 'critical',
    patience: '1m',
    limits: { breakers: 0 },
    concerned: 'refused',
    says: (reason: string, kinds: string) =>
      `fails${reason}${kinds === '' ? '' : ` for ${kinds}`}`,
  },
  failing: {
    alert: 'QuotegateRouteFails',
    severity: 'critical',
    patience: '5m',
    limits: { share: 0.5, failures, held: 0 },
    concerned: 'none',
    says: (share: number, reason: string) =>
      `${percent(share)} of the calls of the last minute failed (${reason})`,
  },
  /** The page is red. The alert only warns: it cannot tell a withdrawn key from one caller in a loop. */
  'no-quotes': {
    alert: 'QuotegateNoQuotes',
    severity: 'warning',
    patience: '5m',
    limits: { share: 0.5, failures },
    concerned: 'none',
    says: (share: number, reason: string) =>
      `${percent(share)} of the calls of the last minute brought no quote that can be kept (${reason})`,
  },
  pairs: {
    alert: 'QuotegatePairsStopped',
    severity: 'warning',
    patience: '5m',
    limits: { pairs: 0 },
    concerned: 'refused',
    says: (howMany: number, reason: string | undefined) =>
      `${many(howMany, 'pair')} stopped (${reason})`,
  },
  slow: {
    alert: 'QuotegateProviderSlow',
    severity: 'warning',
    patience: '5m',
    limits: slow,
    concerned: 'none',
    when: (p95Ms: number, usualP95Ms: number) =>
      p95Ms >= slow.timesUsual * usualP95Ms &&
      p95Ms - usualP95Ms >= slow.moreSeconds * 1_000,
    says({ p95Ms, usualP95Ms }: { p95Ms: number; usualP95Ms: number | undefined }) {
      const usual =
        usualP95Ms === undefined
          ? 'at least half of UPSTREAM_TOTAL_TIMEOUT_MS; what is usual is known after an hour'
          : `usually ${usualP95Ms} ms`
      return `p95 of 10 min is ${p95Ms} ms, ${usual}`
    },
  },
  store: {
    alert: 'QuotegateStoreDown',
    severity: 'warning',
    patience: '1m',
    limits: { upShare: 0.5 },
    concerned: 'forwarded',
    /** The replica is degraded. */
    when: (isUp: boolean, isJournalUsed: boolean) => !isUp || !isJournalUsed,
    says(reason: string | undefined, journalReason: string | undefined) {
      const how =
        reason === undefined
          ? `up, but its journal is not used (${journalReason})`
          : `down (${reason}) and tried again every second`
      return (
        `${how}, so everything is served out of the memory of this replica alone, and orders that the store may ` +
        'know as expired are forwarded'
      )
    },
  },
  /** Replaces `store` once an order went out that the store may know as expired. */
  'store-late-orders': {
    alert: 'QuotegateStoreDown',
    severity: 'critical',
    patience: '1m',
    limits: { upShare: 0.5, orders: 0 },
  },
  disk: {
    alert: 'QuotegateJournalNotWritten',
    severity: 'warning',
    patience: '5m',
    limits: { upShare: 0.5 },
    concerned: 'none',
    says: (reason: string) =>
      `cannot be written to (${reason}), so a restart now forgets the newest quotes, and the newest keys of orders ` +
      'of this replica',
  },
  clock: {
    alert: 'QuotegateClockOffset',
    severity: 'warning',
    patience: '5m',
    limits: clock,
    concerned: 'none',
    when: (offsetMs: number) => Math.abs(offsetMs) > clock.offsetSeconds * 1_000,
    says(offsetMs: number) {
      const side = offsetMs > 0 ? 'ahead of' : 'behind'
      return (
        `${durationText(Math.abs(offsetMs))} ${side} ours, and quotes expire by it, so check which of the two is ` +
        'wrong'
      )
    },
  },
  'clock-unknown': {
    alert: 'QuotegateClockUnknown',
    severity: 'warning',
    patience: '5m',
    limits: { clocks: 0 },
    concerned: 'none',
    says: () =>
      'unknown without a Date that can be read, so quotes expire by our own clock',
  },
  'trust-proxy': {
    ...addresses,
    says: (peers: number) =>
      `${many(peers, 'peer')} outside it sent a user's address: the provider sees all users behind each as one`,
  },
  'client-ip-header': {
    ...addresses,
    says: (peers: number, header: string, sent: string) =>
      `it is ${header}, but ${many(peers, 'trusted peer')} sent ${sent}: the provider sees these users as one`,
  },
  'no-client-header': {
    ...addresses,
    says(peers: number, header: string) {
      const who = peers === 1 ? '1 trusted proxy sends' : `${peers} trusted proxies send`
      return `${who} no ${header}: the provider sees these users as one`
    },
  },
  'unknown-orders': {
    alert: 'QuotegateOrdersUnknown',
    severity: 'warning',
    patience: '10m',
    limits: unknownOrders,
    concerned: 'forwarded',
    when: (orders: number, share: number, usualShare: number) =>
      orders > unknownOrders.orders &&
      ((share > unknownOrders.share && share > unknownOrders.timesUsual * usualShare) ||
        share > unknownOrders.always),
    says(share: number, usualShare: number | undefined) {
      const usually = usualShare === undefined ? '' : `, usually ${percent(usualShare)}`
      return `${percent(share)} of the float orders of the last 30 min were forwarded as unknown${usually}`
    },
  },

  // Alerts alone: the page has no sentence about these.
  ...objective('provider-errors', 'QuotegateProviderErrors', 0.001),
  ...objective('own-errors', 'QuotegateOwnErrors', 0.001),
  ...objective('slow-quotes', 'QuotegateSlow', 0.01),
  'broken-off': {
    alert: 'QuotegateRequestsBrokenOff',
    severity: 'critical',
    patience: '5m',
    limits: { share: 0.1, failures },
  },
  'turned-away': {
    alert: 'QuotegateClientsTurnedAway',
    severity: 'critical',
    patience: '2m',
    limits: { connections: 5 },
  },
  'hit-ratio': {
    alert: 'QuotegateHitRatioCollapsed',
    severity: 'warning',
    patience: '10m',
    limits: { shareOfUsual: 0.5, usual: 0.1, lookupsPerSecond: 1 },
  },
  'no-quote-given': {
    alert: 'QuotegateNoQuoteGiven',
    severity: 'warning',
    patience: '1m',
    limits: { seconds: 600, lookups: 5 },
  },
  'orders-refused': {
    alert: 'QuotegateOrdersRefused',
    severity: 'warning',
    patience: '5m',
    limits: { share: 0.2, orders: 5 },
  },
  held: {
    alert: 'QuotegateHeld',
    severity: 'warning',
    patience: '1h',
    limits: { holds: 0 },
  },
  'provider-limits': {
    alert: 'QuotegateProviderLimits',
    severity: 'warning',
    patience: '5m',
    limits: { share: 0.2 },
  },
  'journal-damaged': {
    alert: 'QuotegateJournalDamaged',
    severity: 'warning',
    patience: '5m',
    limits: { recordsOrFiles: 0 },
  },
  absent: {
    alert: 'QuotegateTargetAbsent',
    severity: 'critical',
    patience: '2m',
    limits: { up: 0 },
  },
  restarts: {
    alert: 'QuotegateRestarts',
    severity: 'critical',
    limits: { times: 2 },
  },
  'event-loop': {
    alert: 'QuotegateEventLoopLag',
    severity: 'warning',
    patience: '5m',
    limits: { seconds: 0.1 },
  },
  memory: {
    alert: 'QuotegateMemoryFull',
    severity: 'warning',
    patience: '10m',
    limits: { share: 0.9 },
  },
  descriptors: {
    alert: 'QuotegateDescriptorsFull',
    severity: 'warning',
    patience: '5m',
    limits: { share: 0.85 },
  },
} as const satisfies Record<string, TroubleRow>

export const troubleRows: readonly TroubleRow[] = Object.values(troubles)

/** From this share on the page reports failing calls in amber; no alert does. */
export const notableShare = 0.1
/** Quotes that are not kept for these reasons are usable for their callers. */
export const usableReasons: readonly string[] = [
  'content-coding',
  'vary',
  'too-large',
  'used',
]

/** `requests`: how many requests the trouble has concerned. */
export function isCritical(what: Outage['what'], requests: number): boolean {
  const worse = troubles['store-late-orders']
  const row = what === 'store' && requests > worse.limits.orders ? worse : troubles[what]
  return row.severity === 'critical'
}

/** The severity of an alert at its worst. Its heading in the runbook says it to the person who was woken. */
export function worstSeverityOf(alert: string): Severity {
  const rows = troubleRows.filter((row) => row.alert === alert)
  return rows.some(({ severity }) => severity === 'critical') ? 'critical' : 'warning'
}

/** The anchor in the runbook: a heading such as `QuotegateHeld · warning` gets it. */
export function sectionOf({
  alert = '',
  section,
}: Pick<TroubleRow, 'alert' | 'section'>): string {
  return section ?? `${alert.toLowerCase()}--${worstSeverityOf(alert)}`
}

const many = (number: number, what: string) =>
  `${number} ${what}${number === 1 ? '' : 's'}`

export const percent = (share: number) => `${Math.round(share * 100)} %`

/** A duration in a person's words. */
export function durationText(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  return `${Math.round(seconds / 3_600)} h`
}
