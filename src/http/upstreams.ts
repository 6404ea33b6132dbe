import type { ProblemSlug } from './problem.ts'

/** What every deployment has in common about one API. */
export interface UpstreamFacts {
  /** The OpenAPI document lists its paths under this title. */
  readonly title: string
  readonly baseUrl: { readonly setting: string }
  /** The path prefixes that go there, or the setting that lists them. */
  readonly paths: readonly string[] | { readonly setting: string }
  /**
   * by-kind: orders have their own connections, and each kind of request its breaker; Forwarded, Via and what SWAP_…
   * supplies are added. alike: the one breaker counts failures to connect; nothing is added, since callers sign their
   * bytes.
   */
  readonly requests: 'by-kind' | 'alike'
  /** What its paths are answered without a base URL. */
  readonly missing: { readonly slug: ProblemSlug; readonly detail: string }
}

/** Settings, areas, headers, breakers, metrics and the OpenAPI document follow from this table. */
export const upstreamTable = {
  swap: {
    title: 'Swap',
    baseUrl: { setting: 'SWAP_BASE_URL' },
    paths: ['/v3'],
    requests: 'by-kind',
    missing: { slug: 'not-found', detail: 'Set SWAP_BASE_URL to the swap API.' },
  },
  payments: {
    title: 'Payments',
    baseUrl: { setting: 'PAYMENTS_BASE_URL' },
    paths: { setting: 'PAYMENTS_PATHS' },
    requests: 'alike',
    missing: {
      slug: 'no-payments-upstream',
      detail:
        'Set PAYMENTS_BASE_URL to the payments API; PAYMENTS_PATHS says which paths go there.',
    },
  },
  webhooks: {
    title: 'Webhooks',
    baseUrl: { setting: 'WEBHOOKS_BASE_URL' },
    paths: ['/webhooks'],
    requests: 'alike',
    missing: {
      slug: 'no-webhooks-upstream',
      detail: 'Set WEBHOOKS_BASE_URL to the service that receives webhooks.',
    },
  },
} as const satisfies Record<string, UpstreamFacts>

export type UpstreamName = keyof typeof upstreamTable

export const upstreamNames = Object.keys(upstreamTable) as readonly UpstreamName[]

export function forEachUpstream<Value>(
  create: (name: UpstreamName) => Value,
): Readonly<Record<UpstreamName, Value>> {
  return Object.fromEntries(upstreamNames.map((name) => [name, create(name)])) as Record<
    UpstreamName,
    Value
  >
}
