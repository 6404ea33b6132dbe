import type { ProblemSlug } from './problem.ts'

/** Facts about an API behind the gateway that are the same in every deployment. */
export interface UpstreamFacts {
  /** Its name in text for people. */
  readonly title: string
  /** The path prefixes that are forwarded to it; undefined: a setting lists them. */
  readonly paths: readonly string[] | undefined
  /** swap: adds Forwarded, Via and the headers of SWAP_…. untouched: adds no headers, since callers sign their bytes. */
  readonly headers: 'swap' | 'untouched'
  /** answers: failing answers and failures to connect open its breaker. connects: only failures to connect do. */
  readonly breakerCounts: 'answers' | 'connects'
  /** The problem that its paths answer while it has no base URL; undefined: it always has one. */
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
