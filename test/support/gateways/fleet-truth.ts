import type { AnsweredOrder, FleetClients, HeldQuote } from '../clients/fleet-clients.ts'
import type { MovingPrices } from '../upstreams/moving-prices.ts'
import type { Replica } from './fleet.ts'

interface Timeline {
  /** No replica is cautious any more because it has just started. */
  readonly calmAtMs: number
  readonly brokenAtMs: number
  readonly mendedAtMs: number
}

interface Witnesses {
  clients: FleetClients
  provider: MovingPrices
  timeline: Timeline
  /** It alone had no store while the fault lasted. */
  alone: Replica | undefined
}

/** Within 5 s of the end of a fault all is as before it; on a machine that is loaded, a little later. */
const backWithinMs = 6_500
/** After its start a replica refuses by what it knows at once by an id, and by everything so much later. */
const startsWithinMs = 3_000
const usedWithinMs = 200
/** What a replica noted so shortly before it was killed may be known to it alone. */
const toldWithinMs = 200
/** It finds its store again within a second. */
const foundAgainWithinMs = 1_000

/** What was wrong, by what the provider and the users know. Each list says what happened. */
export function faultsIn({ clients, provider, timeline, alone }: Witnesses) {
  const { calmAtMs, brokenAtMs, mendedAtMs } = timeline
  const { asks, orders } = clients
  const exchanged = [...asks, ...orders]

  const isJudged = ({
    sentAtMs,
    receivedAtMs,
  }: {
    sentAtMs: number
    receivedAtMs: number
  }) =>
    (sentAtMs > calmAtMs && receivedAtMs < brokenAtMs) ||
    sentAtMs > mendedAtMs + backWithinMs
  const told = (quote: HeldQuote) => wasTold(quote, timeline)
  const say = (order: AnsweredOrder) => sayOrder(order, timeline)
  const isUntold = ({ quote: { giver, receivedAtMs } }: AnsweredOrder) =>
    giver === alone &&
    receivedAtMs > brokenAtMs - toldWithinMs &&
    receivedAtMs < mendedAtMs + foundAgainWithinMs

  const answered = orders.filter(({ status }) => status === 201 || status === 409)
  const refused = answered.filter(
    ({ problem, quote }) => problem !== undefined && told(quote),
  )
  const liveRefused = refused.filter(
    ({ quote, receivedAtMs }) => (quote.expiresAtMs ?? Number.NaN) > receivedAtMs,
  )
  const unreadableRefused = refused.filter(({ quote }) => quote.expiresAtMs === undefined)
  const late = answered.filter(
    ({ quote, sentAtMs }) => (quote.lateFromMs ?? Number.NaN) < sentAtMs && told(quote),
  )
  // In 20 s there are hundreds. With few, nothing has been shown.
  if (answered.length < 150)
    throw new Error(`only ${answered.length} orders were answered`)

  const overASecond = exchanged.filter((exchange) => durationOf(exchange) > 1_000)
  const untold = [...liveRefused, ...unreadableRefused].filter(isUntold)
  return {
    liveRefused: liveRefused.filter((order) => !isUntold(order)).map(say),
    unreadableRefused: unreadableRefused.filter((order) => !isUntold(order)).map(say),
    /** Late orders that were not refused as expired, neither while the fault lasted nor until all is as before. */
    late: late
      .filter((order) => isJudged(order) && hasBegun(order.replica, order))
      .filter(({ problem }) => problem !== 'quote-expired')
      .map(say),
    expiredServed: asks
      .filter(({ quote, sentAtMs }) => (quote?.expiresAtMs ?? Number.NaN) <= sentAtMs)
      .map(({ quote, replica, sentAtMs }) => {
        const overMs = sentAtMs - (quote?.expiresAtMs ?? 0)
        return `${replica.name} serves ${quote?.id}, ${overMs} ms over, ${when(sentAtMs, timeline)}`
      }),
    sentTwice: orders
      .filter(({ reference, problem }) => {
        const maxArrivals = problem?.startsWith('quote-') ? 0 : 1
        return (provider.arrived.get(reference) ?? 0) > maxArrivals
      })
      .map(say),
    usedServed: usedServed(clients, timeline),
    failed: exchanged
      .filter(
        ({ status, replica }) =>
          ![200, 201, 409].includes(status) && !(status === 0 && replica.killedAtMs),
      )
      .map(
        ({ status, replica, sentAtMs }) =>
          `${status} at ${replica.name}, ${when(sentAtMs, timeline)}`,
      ),
    // In three seconds a replica gives some ten quotes, and each that cannot be read is ordered at both others.
    refusedUntold: untold.length > maxRefusedUntold ? untold.map(say) : [],
    // No request waits for the store for long, or hardly any.
    overASecond:
      overASecond.length > exchanged.length / 20
        ? overASecond.map(
            (one) =>
              `${durationOf(one)} ms at ${one.replica.name}, ${when(one.sentAtMs, timeline)}`,
          )
        : [],
  }
}

const maxRefusedUntold = 15

/** Quotes that were served more than 200 ms after an order for them was accepted, while the store was well. */
function usedServed({ asks, orders }: FleetClients, timeline: Timeline): string[] {
  const { calmAtMs, brokenAtMs, mendedAtMs } = timeline
  const used = new Map<string, AnsweredOrder>()
  for (const order of orders) {
    const { quote, problem, receivedAtMs } = order
    const isCertain =
      receivedAtMs < brokenAtMs - usedWithinMs || receivedAtMs > mendedAtMs + backWithinMs
    if (
      problem === undefined &&
      receivedAtMs > calmAtMs &&
      isCertain &&
      !used.has(quote.id)
    )
      used.set(quote.id, order)
  }
  return asks.flatMap(({ quote, replica, sentAtMs }) => {
    const order = used.get(quote?.id ?? '')
    const afterMs = sentAtMs - (order?.receivedAtMs ?? Number.POSITIVE_INFINITY)
    if (order === undefined || afterMs < usedWithinMs) return []
    return [
      `${replica.name} serves ${quote?.id} ${afterMs} ms after its order: ${sayOrder(order, timeline)}`,
    ]
  })
}

function durationOf({
  sentAtMs,
  receivedAtMs,
}: {
  sentAtMs: number
  receivedAtMs: number
}): number {
  return receivedAtMs - sentAtMs
}

function hasBegun({ readyAtMs }: Replica, { style, sentAtMs }: AnsweredOrder): boolean {
  return style === 'id' || sentAtMs > readyAtMs + startsWithinMs
}

/** Whether the replica that gave it lived to tell the others: without a store it could not. */
function wasTold(
  { giver: { killedAtMs }, receivedAtMs }: HeldQuote,
  { brokenAtMs, mendedAtMs }: Timeline,
): boolean {
  if (killedAtMs === undefined || receivedAtMs < brokenAtMs - toldWithinMs) return true
  return killedAtMs > mendedAtMs && receivedAtMs < killedAtMs - toldWithinMs
}

function when(atMs: number, { brokenAtMs, mendedAtMs }: Timeline): string {
  const seconds = (sinceMs: number) => `${((atMs - sinceMs) / 1_000).toFixed(2)} s`
  return atMs < mendedAtMs
    ? `${seconds(brokenAtMs)} into the fault`
    : `${seconds(mendedAtMs)} after the fault`
}

function sayOrder(order: AnsweredOrder, timeline: Timeline): string {
  const { quote, style, replica, problem = 'sent', sentAtMs } = order
  const left =
    quote.expiresAtMs === undefined
      ? 'unreadable'
      : `${quote.expiresAtMs - sentAtMs} ms left`
  return (
    `${problem} at ${replica.name}, ${when(sentAtMs, timeline)}: by ${style} for ${quote.id} (${left}), which ` +
    `${quote.giver.name} gave ${when(quote.receivedAtMs, timeline)}`
  )
}
