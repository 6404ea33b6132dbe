import type { AnsweredOrder, FleetClients, HeldQuote } from '../clients/fleet-clients.ts'
import type { MovingPrices } from '../upstreams/moving-prices.ts'
import type { BusyMachine, Fleet, Replica } from './fleet.ts'

interface Timeline {
  /** No replica is cautious any more because it has just started. */
  readonly calmAtMs: number
  readonly brokenAtMs: number
  readonly mendedAtMs: number
}

/** Each list says what happened. */
export type Judgement = ReturnType<typeof judge>

const backWithinMs = 5_000
/** After its start a replica refuses by what it knows at once by an id, and by everything so much later. */
const startsWithinMs = 3_000
const usedWithinMs = 200
/** What a replica noted so shortly before it was killed may be known to it alone. */
const toldWithinMs = 200
/** It finds its store again within a second. */
const foundAgainWithinMs = 1_000

interface Witnesses {
  fleet: Fleet
  clients: FleetClients
  provider: MovingPrices
  machine: BusyMachine
  timeline: Timeline
  /** It alone had no store while the fault lasted. */
  alone: Replica | undefined
}

/** Holds every answer against what the provider and the clients know. */
export function judge(witnesses: Witnesses) {
  const { clients, provider, machine, timeline, alone } = witnesses
  const { calmAtMs, brokenAtMs, mendedAtMs } = timeline
  const { asks, orders } = clients
  const exchanged = [...asks, ...orders]
  const excused = { late: [] as string[], usedServed: [] as string[], overASecond: [] as string[] }

  const isJudged = ({ sentAtMs, receivedAtMs }: { sentAtMs: number; receivedAtMs: number }) =>
    (sentAtMs > calmAtMs && receivedAtMs < brokenAtMs) || sentAtMs > mendedAtMs + backWithinMs
  const told = (quote: HeldQuote) => wasTold(quote, timeline)
  const say = (order: AnsweredOrder) => sayOrder(order, timeline)
  const isUntold = ({ quote: { giver, receivedAtMs }, sentAtMs }: AnsweredOrder) => {
    const isCutOff =
      receivedAtMs > brokenAtMs - toldWithinMs && receivedAtMs < mendedAtMs + foundAgainWithinMs
    if (giver === alone && isCutOff) return true
    return sentAtMs < receivedAtMs + foundAgainWithinMs && machine.wasBusyBefore(receivedAtMs)
  }
  const unlessExcused = (list: keyof typeof excused, { text, instants }: Found) => {
    if (!instants.some((atMs) => machine.wasBusyBefore(atMs))) return [text]
    excused[list].push(text)
    return []
  }

  const answered = orders.filter(({ status }) => status === 201 || status === 409)
  const refused = answered.filter(({ problem, quote }) => problem !== undefined && told(quote))
  const liveRefused = refused.filter(
    ({ quote, receivedAtMs }) => (quote.expiresAtMs ?? Number.NaN) > receivedAtMs,
  )
  const unreadableRefused = refused.filter(({ quote }) => quote.expiresAtMs === undefined)
  const late = answered.filter(
    ({ quote, sentAtMs }) => (quote.lateFromMs ?? Number.NaN) < sentAtMs && told(quote),
  )
  const lateAndJudged = late.filter((order) => isJudged(order) && hasBegun(order.replica, order))
  const passed = late.filter(hasPassed)
  const used = usedQuotes(witnesses)

  const judged = {
    requests: exchanged.length,
    orders: answered.length,
    liveRefused: liveRefused.filter((order) => !isUntold(order)).map(say),
    /** Late orders that were not refused as expired: while the fault lasted, and until 5 s later. */
    lateMeanwhile: passed.filter((order) => order.sentAtMs > brokenAtMs && !isJudged(order)).map(say),
    /** At any other time. */
    late: lateAndJudged.filter(hasPassed).flatMap((order) => {
      // However busy the machine is, by an id, or as unknown, only a quote passes that was lost.
      if (order.problem !== undefined || order.style === 'id') return [say(order)]
      return unlessExcused('late', { text: say(order), instants: [order.sentAtMs] })
    }),
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
    usedServed: servedAgain(witnesses, used).flatMap((found) => unlessExcused('usedServed', found)),
    unreadableRefused: unreadableRefused.filter((order) => !isUntold(order)).map(say),
    /**
     * Live and unreadable ones that one replica alone knew: it was cut off alone, or the machine too busy for it to tell
     * them within the store's timeout.
     */
    refusedUntold: [...liveRefused, ...unreadableRefused].filter(isUntold).map(say),
    failed: exchanged
      .filter(
        ({ status, replica }) => ![200, 201, 409].includes(status) && !(status === 0 && replica.killedAtMs),
      )
      .map(({ status, replica, sentAtMs }) => `${status} at ${replica.name}, ${when(sentAtMs, timeline)}`),
    overASecond: exchanged.flatMap((exchange) => {
      const { replica, sentAtMs, receivedAtMs } = exchange
      if (durationOf(exchange) <= 1_000) return []
      const kind = 'reference' in exchange ? 'order' : 'quote'
      const text = `${durationOf(exchange)} ms for the ${kind} at ${replica.name}, ${when(sentAtMs, timeline)}`
      return unlessExcused('overASecond', { text, instants: [receivedAtMs] })
    }),
    slowestMs: Math.max(...exchanged.map(durationOf)),
    /** From the end of the fault to the last late order that was sent. */
    backAfterMs: Math.max(
      0,
      ...passed
        .filter(({ replica, sentAtMs }) => replica.readyAtMs < mendedAtMs && !machine.wasBusyBefore(sentAtMs))
        .map(({ sentAtMs }) => sentAtMs - mendedAtMs),
    ),
  }
  const busy = exchanged.filter(({ sentAtMs }) => machine.tells && machine.wasBusyBefore(sentAtMs))
  return {
    ...judged,
    /** What would be in another list, if the machine had not been too busy for the store's timeouts. */
    excused: Object.entries(excused).flatMap(([list, texts]) => texts.map((text) => `${list}: ${text}`)),
    /** What share of the late orders, and of the used quotes, had to be excused; and for what share of the time one had to. */
    excusedShare: Math.max(
      excused.late.length / Math.max(1, lateAndJudged.length),
      excused.usedServed.length / Math.max(1, used.size),
    ),
    busyShare: busy.length / exchanged.length,
  }
}

/** What happened, and when the machine must not have been busy for it to be a fault. */
interface Found {
  readonly text: string
  readonly instants: readonly number[]
}

const hasPassed = ({ problem }: AnsweredOrder) => problem !== 'quote-expired'

/** The first order for each, of those that were accepted while the store was well. */
function usedQuotes({ clients: { orders }, timeline }: Witnesses): ReadonlyMap<string, AnsweredOrder> {
  const { calmAtMs, brokenAtMs, mendedAtMs } = timeline
  const used = new Map<string, AnsweredOrder>()
  for (const order of orders) {
    const { quote, problem, receivedAtMs } = order
    const isCertain = receivedAtMs < brokenAtMs - usedWithinMs || receivedAtMs > mendedAtMs + backWithinMs
    if (problem === undefined && receivedAtMs > calmAtMs && isCertain && !used.has(quote.id))
      used.set(quote.id, order)
  }
  return used
}

/** Quotes that were served more than 200 ms after their order. */
function servedAgain(
  { clients: { asks }, timeline }: Witnesses,
  used: ReadonlyMap<string, AnsweredOrder>,
): Found[] {
  return asks.flatMap(({ quote, replica, sentAtMs }) => {
    const order = used.get(quote?.id ?? '')
    const afterMs = sentAtMs - (order?.receivedAtMs ?? Number.POSITIVE_INFINITY)
    if (order === undefined || afterMs < usedWithinMs) return []
    const text = `${replica.name} serves ${quote?.id} ${afterMs} ms after its order: ${sayOrder(order, timeline)}`
    // On a busy machine the quote may not have been known where the order came, or the word of it was late.
    return [{ text, instants: [order.sentAtMs, sentAtMs] }]
  })
}

function durationOf({ sentAtMs, receivedAtMs }: { sentAtMs: number; receivedAtMs: number }): number {
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
  const left = quote.expiresAtMs === undefined ? 'unreadable' : `${quote.expiresAtMs - sentAtMs} ms left`
  return (
    `${problem} at ${replica.name}, ${when(sentAtMs, timeline)}: by ${style} for ${quote.id} (${left}), which ` +
    `${quote.giver.name} gave ${when(quote.receivedAtMs, timeline)}`
  )
}
