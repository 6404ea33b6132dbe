import type { ProblemSlug } from './problem.ts'

/** A setting that the table declares; what it means is the text of --help and docs/settings.md. */
export interface DeclaredSetting<Name extends string = string> {
  readonly setting: Name
  readonly default: string | undefined
  /** For a default that depends on other settings. */
  readonly defaultText?: string
  readonly meaning: string
}

/** What is the same for every deployment about one API behind the gateway. */
export interface UpstreamFacts {
  /** The OpenAPI document lists its paths under this title. */
  readonly title: string
  readonly baseUrl: DeclaredSetting & { readonly maySandbox: boolean }
  /** The path prefixes that go there, or the setting that lists them. */
  readonly paths: readonly string[] | DeclaredSetting
  /** swap: Forwarded, Via and what SWAP_… supplies are added. untouched: nothing is, since clients sign their bytes. */
  readonly headers: 'swap' | 'untouched'
  /**
   * by-kind: orders have connections of their own, and each kind of request a breaker. alike: the one breaker counts
   * failures to connect.
   */
  readonly requests: 'by-kind' | 'alike'
  /** What its paths are answered while it has no base URL. */
  readonly missing: { readonly slug: ProblemSlug; readonly detail: string }
}

/** Every API behind the gateway. Settings, areas, headers, breakers, metrics and the OpenAPI document follow from it. */
export const upstreamTable = {
  swap: {
    title: 'Swap',
    baseUrl: {
      setting: 'SWAP_BASE_URL',
      default: 'sandbox',
      defaultText: 'sandbox; none in production, where it is required',
      maySandbox: true,
      meaning: 'The swap upstream, an http or https URL (a path prefix is kept), or the built-in sandbox.',
    },
    paths: ['/v3'],
    headers: 'swap',
    requests: 'by-kind',
    missing: { slug: 'not-found', detail: 'Set SWAP_BASE_URL to the swap API.' },
  },
  payments: {
    title: 'Payments',
    baseUrl: {
      setting: 'PAYMENTS_BASE_URL',
      default: undefined,
      defaultText: 'sandbox if SWAP_BASE_URL is the sandbox, else none',
      maySandbox: true,
      meaning: 'The payments upstream. Without one, the payments paths answer 404 with the reason.',
    },
    paths: {
      setting: 'PAYMENTS_PATHS',
      default: '/checkouts,/subscriptions,/subscription-checkouts,/refunds,/payments,/merchants,/settings',
      meaning:
        'Path prefixes that go to the payments upstream, separated by commas; / sends everything that is not ' +
        '/v3, another /v<number> (another version answers 404, and may not be listed) or /webhooks. Every other path ' +
        'answers 404, naming this setting.',
    },
    headers: 'untouched',
    requests: 'alike',
    missing: {
      slug: 'no-payments-upstream',
      detail: 'Set PAYMENTS_BASE_URL to the payments API; PAYMENTS_PATHS says which paths go there.',
    },
  },
  webhooks: {
    title: 'Webhooks',
    baseUrl: {
      setting: 'WEBHOOKS_BASE_URL',
      default: undefined,
      maySandbox: false,
      meaning:
        'If set, /webhooks and everything below it goes there: any method, byte for byte, the whole target ' +
        'appended to this URL.',
    },
    paths: ['/webhooks'],
    headers: 'untouched',
    requests: 'alike',
    missing: {
      slug: 'no-webhooks-upstream',
      detail: 'Set WEBHOOKS_BASE_URL to the service that receives webhooks.',
    },
  },
} as const satisfies Record<string, UpstreamFacts>

export type UpstreamName = keyof typeof upstreamTable
type Table = typeof upstreamTable

export type BaseUrlSetting = Table[UpstreamName]['baseUrl']['setting']
export type PathsSetting = Extract<Table[UpstreamName]['paths'], DeclaredSetting>['setting']

export const upstreamNames = Object.keys(upstreamTable) as readonly UpstreamName[]

/** One value for each upstream, by its name. */
export function forEachUpstream<Value>(
  create: (name: UpstreamName) => Value,
): Readonly<Record<UpstreamName, Value>> {
  return Object.fromEntries(upstreamNames.map((name) => [name, create(name)])) as Record<UpstreamName, Value>
}
