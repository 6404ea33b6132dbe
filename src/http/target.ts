import { type UpstreamName, upstreamNames } from './upstreams.ts'

/** An upstream, or one of the swap paths that the gateway guards. */
export type Area = 'quote' | 'float-order' | 'order' | UpstreamName | 'none'

export const areas: readonly Area[] = [
  'quote',
  'float-order',
  'order',
  ...upstreamNames,
  'none',
]

export interface QuotePath {
  /** The pair, in its own case, without needless escapes. */
  pair: string
  /** As received, if the path is not the pair's plain spelling. */
  spelledPath?: string
}

export type AmountReading =
  | {
      canonical: string
      /** Query parameters besides the amount that tell quotes apart, as sent and in order. */
      otherParameters: string
      problem?: undefined
    }
  /** A sentence for the caller, with the parameter and what is expected. */
  | { problem: string }

/** What `area.ts` reads out of a raw target. */
export type TargetReading =
  | {
      target: string
      path: string
      area: Area
      /** Undefined: no upstream has such paths. */
      upstream: UpstreamName | undefined
      /** Undefined: not a quote. */
      quote: (QuotePath & AmountReading) | undefined
      /** What a plain path of rates asks for. Rates are for any amount, so `canonical` is empty. */
      rates: (QuotePath & AmountReading) | undefined
      /** The kind of path, without what a caller chooses; undefined: no upstream has such paths. */
      route: string | undefined
    }
  /** For OPTIONS only (RFC 9112 3.2.4). */
  | { asterisk: true }
  | { problem: string }

/** As logs, the console and traces show it. Only quotes and the rest of the swap API show a query. */
export function shownTarget(reading: TargetReading): string | undefined {
  if (!('target' in reading)) return undefined
  const { area, path, target } = reading
  const hasShownQuery =
    (area === 'quote' || area === 'swap') && target.length > path.length
  return hasShownQuery ? `${path}?${shownQuery(target.slice(path.length + 1))}` : path
}

/** Parameters of the swap API that say nothing of the user. */
const harmless: ReadonlySet<string> = new Set([
  'amount',
  'from',
  'to',
  'toAsset',
  'networks',
  'limit',
  'page',
  'format',
])
/** Only plain values: some servers also end a parameter at ";", and servers that decode twice at "%26". */
const plainValue = /^(?:[\w.,:+-]|%2c){0,64}$/i
/** Anything else may be a value without its name. */
const plainName = /^[\w.[\]-]{1,32}$/

/** Other values are left out: each may be an address, a name or a key. */
export function shownQuery(query: string): string {
  return query.split('&').map(shownParameter).join('&')
}

function shownParameter(parameter: string): string {
  const equalsAt = parameter.indexOf('=')
  if (equalsAt === -1)
    return plainName.test(parameter) || parameter === '' ? parameter : '…'
  const name = parameter.slice(0, equalsAt)
  const value = parameter.slice(equalsAt + 1)
  if (harmless.has(name) && plainValue.test(value)) return parameter
  return `${plainName.test(name) ? name : '…'}=…`
}
