import { type UpstreamName, upstreamNames } from './upstreams.ts'

/** Which part of the service a request belongs to: an upstream, or one of the swap paths that the gateway guards. */
export type Area = 'quote' | 'float-order' | 'order' | UpstreamName | 'none'

export const areas: readonly Area[] = [
  'quote',
  'float-order',
  'order',
  ...upstreamNames,
  'none',
]

export interface QuotePath {
  /** The pair that the path names, in its own case, without needless escapes of unreserved characters. */
  pair: string
  /** The path as received, if it is more than the plain spelling of the pair. */
  spelledPath?: string
}

export type AmountReading =
  | {
      canonical: string
      /** The query parameters that tell quotes apart besides the amount, as sent and in order. */
      otherParameters: string
      problem?: undefined
    }
  /** A sentence for the client: names the parameter and says what is expected. */
  | { problem: string }

/** What `area.ts` reads out of a raw request target. */
export type TargetReading =
  | {
      target: string
      path: string
      area: Area
      /** Undefined: no upstream has such paths. */
      upstream: UpstreamName | undefined
      /** What a quote target asks for; undefined in other areas. */
      quote: (QuotePath & AmountReading) | undefined
      /** What the plain path of a list of rates asks for. Rates are for any amount, so `canonical` is empty. */
      rates: (QuotePath & AmountReading) | undefined
      /** The kind of path, without anything that a client chooses; undefined: no upstream has such paths. */
      route: string | undefined
    }
  /** `*`, which only OPTIONS may ask for (RFC 9112 3.2.4). */
  | { asterisk: true }
  | { problem: string }

/** The target as logs, the console and traces show it. Only quotes and the rest of the swap API show a query. */
export function shownTarget(reading: TargetReading): string | undefined {
  if (!('target' in reading)) return undefined
  const { area, path, target } = reading
  const hasShownQuery =
    (area === 'quote' || area === 'swap') && target.length > path.length
  return hasShownQuery ? `${path}?${shownQuery(target.slice(path.length + 1))}` : path
}

/** Parameters of the swap API that say what is requested, and nothing of the user. */
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
/**
 * How the values of these are spelled. Some servers also end a parameter at ";", and a server that decodes twice at
 * "%26".
 */
const plainValue = /^(?:[\w.,:+-]|%2c){0,64}$/i
/** A longer name, or a name with other characters, may be a value without its name. */
const plainName = /^[\w.[\]-]{1,32}$/

/** A query for people to read. Other values are left out: each may be an address, a name or a key. */
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
