import { normalizeAddress } from '../../src/http/ip-address.ts'
import { createRandom, createZipf, drawBetween, type Random } from './random.ts'

/** What decides which requests are sent and when. */
export interface Scenario {
  seed: number
  durationMs: number
  clients: number
  pairs: number
  amounts: number
  countries: number
  ipv4Share: number
  clientsPerIpv4Network: number
  clientsPerIpv6Network: number
  /** Clients whose place the edge does not know: it sends XX, and they are partitioned by ip. */
  unknownPlaceShare: number
  askEveryMs: number
  /** A client asks up to this much early or late. */
  askJitterMs: number
  /** How long a swap page stays open, evenly drawn between the two. */
  visitMs: readonly [least: number, most: number]
  /** How long a client stays away from the page, evenly drawn between the two. */
  awayMs: readonly [least: number, most: number]
  quoteLifeMs: number
  upstreamLatencyMs: number
}

export const scriptedHour: Scenario = {
  seed: 20_260_101,
  durationMs: 3_600_000,
  clients: 1_000,
  pairs: 200,
  amounts: 20,
  countries: 10,
  ipv4Share: 0.6,
  clientsPerIpv4Network: 4,
  clientsPerIpv6Network: 2,
  unknownPlaceShare: 0.01,
  askEveryMs: 10_000,
  askJitterMs: 500,
  visitMs: [60_000, 300_000],
  awayMs: [240_000, 1_200_000],
  quoteLifeMs: 30_000,
  upstreamLatencyMs: 80,
}

export interface SimulatedClient {
  address: string
  /** The client's place, as the edge names it. */
  place: string
}

export interface SimulatedRequest {
  /** Since the start of the hour. */
  atMs: number
  client: SimulatedClient
  pair: string
  amount: string
}

/** The same for every partition mode, because answers do not change when a client asks next. */
export function createTraffic(scenario: Scenario): SimulatedRequest[] {
  const random = createRandom(scenario.seed)
  const drawPair = createZipf(scenario.pairs, random)
  const drawAmount = createZipf(scenario.amounts, random)
  const requests: SimulatedRequest[] = []
  for (const client of createClients(scenario, random)) {
    for (const [fromMs, untilMs] of visits(scenario, random)) {
      const wish = { client, pair: pairName(drawPair()), amount: amountText(drawAmount()) }
      for (const atMs of asks(scenario, random, fromMs, untilMs)) {
        if (atMs >= 0 && atMs < scenario.durationMs) requests.push({ atMs, ...wish })
      }
    }
  }
  return requests.sort((left, right) => left.atMs - right.atMs)
}

/** Every client has an address of its own. A network lies within one country, and the next one is used when it is full. */
export function createClients(scenario: Scenario, random: Random): SimulatedClient[] {
  const drawCountry = createZipf(scenario.countries, random)
  const ipv4 = createNetworks(scenario.clientsPerIpv4Network)
  const ipv6 = createNetworks(scenario.clientsPerIpv6Network)
  return Array.from({ length: scenario.clients }, () => {
    const country = drawCountry()
    const isIpv4 = random() < scenario.ipv4Share
    const isUnknown = random() < scenario.unknownPlaceShare
    return {
      address: isIpv4 ? ipv4Address(ipv4(country)) : ipv6Address(ipv6(country)),
      place: isUnknown ? 'XX' : countryCode(country),
    }
  })
}

interface Seat {
  network: number
  host: number
}

function createNetworks(size: number): (country: number) => Seat {
  const openByCountry = new Map<number, Seat>()
  let networks = 0
  return (country) => {
    const open = openByCountry.get(country)
    const seat =
      open === undefined || open.host === size
        ? { network: networks++, host: 1 }
        : { network: open.network, host: open.host + 1 }
    openByCountry.set(country, seat)
    return seat
  }
}

function ipv4Address({ network, host }: Seat): string {
  return canonical(`10.${network >> 8}.${network & 0xff}.${host}`)
}

/** The neighbours of a /56 are in different /64s of it. */
function ipv6Address({ network, host }: Seat): string {
  const fourthGroup = ((network & 0xff) << 8) | host
  return canonical(`2001:db8:${(network >> 8).toString(16)}:${fourthGroup.toString(16)}::1`)
}

function canonical(address: string): string {
  const normalized = normalizeAddress(address)
  if (normalized === undefined) throw new RangeError(`too many networks: ${address}`)
  return normalized
}

/** Starts so long before the hour that as many pages are open at its first moment as at its last. */
function* visits({ visitMs, awayMs, durationMs }: Scenario, random: Random): Generator<[number, number]> {
  const longestCycleMs = visitMs[1] + awayMs[1]
  let fromMs = -2 * longestCycleMs + drawBetween(random, [0, longestCycleMs])
  while (fromMs < durationMs) {
    const untilMs = fromMs + drawBetween(random, visitMs)
    yield [fromMs, untilMs]
    fromMs = untilMs + drawBetween(random, awayMs)
  }
}

function* asks({ askEveryMs, askJitterMs }: Scenario, random: Random, fromMs: number, untilMs: number) {
  // The first request comes at once; none comes before the page is open.
  for (let dueMs = fromMs; dueMs < untilMs; dueMs += askEveryMs) {
    yield dueMs === fromMs ? dueMs : dueMs + drawBetween(random, [-askJitterMs, askJitterMs])
  }
}

function pairName(rank: number): string {
  return `coin${rank + 1}_usdt`
}

function amountText(rank: number): string {
  return String((rank + 1) * 50)
}

function countryCode(country: number): string {
  return `A${String.fromCharCode(65 + country)}`
}
