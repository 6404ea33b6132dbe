import type { ProblemSlug } from './problem.ts'

/** What is the same for every deployment about one API behind the gateway. */
export interface UpstreamFacts {
  /** For people. */
  readonly title: string
  /** The path prefixes that go there; undefined: a setting lists them. */
  readonly paths: readonly string[] | undefined
  /** swap: Forwarded, Via and what SWAP_… supplies are added. untouched: nothing is, since callers sign their bytes. */
  readonly headers: 'swap' | 'untouched'
  /** What opens its breaker: its failing answers too, or only failures to connect. */
  readonly breakerCounts: 'answers' | 'connects'
  /** What its paths are answered while it has no base URL; undefined: it always has one. */
  readonly missing: { readonly slug: ProblemSlug; readonly detail: string } | undefined
}

/** Every API behind the gateway. Areas, settings, metrics and the OpenAPI document follow from this table. */
export const upstreamTable = {
  swap: {
    title: 'swap API',
    paths: ['/v3'],
    headers: 'swap',
    breakerCounts: 'answers',
    missing: undefined,
  },
  payments: {
    title: 'payments API',
    paths: undefined,
    headers: 'untouched',
    breakerCounts: 'connects',
    missing: {
      slug: 'no-payments-upstream',
      detail: 'Set PAYMENTS_BASE_URL to the payments API; PAYMENTS_PATHS says which paths go there.',
    },
  },
  webhooks: {
    title: 'receiver of webhooks',
    paths: ['/webhooks'],
    headers: 'untouched',
    breakerCounts: 'connects',
    missing: {
      slug: 'no-webhooks-upstream',
      detail: 'Set WEBHOOKS_BASE_URL to the service that receives webhooks.',
    },
  },
} as const satisfies Record<string, UpstreamFacts>

export type UpstreamName = keyof typeof upstreamTable
export const upstreamNames = Object.keys(upstreamTable) as readonly UpstreamName[]
