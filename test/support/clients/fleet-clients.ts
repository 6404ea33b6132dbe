import { pause } from '../gateways/between.ts'
import type { Fleet, Replica } from '../gateways/fleet.ts'
import { oddLifeMs, pairs } from '../upstreams/moving-prices.ts'
import { ask } from './quotes.ts'

/** How an order says which quote it means. */
type Style = 'id' | 'digits' | 'own' | 'terms'

export interface HeldQuote {
  readonly id: string
  readonly pairId: string
  readonly fromValue: string
  readonly toValue: string
  /** Undefined: it cannot be read. */
  readonly expiresAtMs: number | undefined
  /** From when on an order is late for certain. */
  readonly lateFromMs: number | undefined
  /** The address of the user who has it. */
  readonly address: string
  readonly giver: Replica
  readonly receivedAtMs: number
  /** Which of them, besides its id, leaves no doubt. */
  readonly style: Style
}

interface Asked {
  readonly pairId: string
  readonly amount: string
  readonly style: Style
}

interface Exchanged {
  readonly replica: Replica
  readonly sentAtMs: number
  readonly receivedAtMs: number
  /** 0: the connection ended. */
  readonly status: number
}

interface AnsweredAsk extends Exchanged {
  readonly quote: HeldQuote | undefined
}

export interface AnsweredOrder extends Exchanged {
  readonly reference: string
  readonly quote: HeldQuote
  readonly style: Style
  /** `quote-expired`, `quote-unknown` and the like; undefined: it was accepted. */
  readonly problem: string | undefined
}

const clients = 16
const amounts = ['1', '2.5']
const lives = { everyMs: 80, lateEveryMs: 50 }
/** What a record takes adds less to the end of its quote. */
const recordTakesMs = 600
/** If the provider took longer, its `Date` alone says when the quote is over, and that has no fractions of a second. */
const promptMs = 800
const fractionMs = 1_000
/** An order that is sent with so much left is live when it arrives. */
const liveBeforeMs = 400
const againAfterMs = 250
const maxOrderedLate = 100

/** Simulated users of a fleet, who write down every answer. They ask one replica, and order at any. */
export class FleetClients {
  readonly asks: AnsweredAsk[] = []
  readonly orders: AnsweredOrder[] = []
  readonly #fleet: Fleet
  readonly #held: HeldQuote[] = []
  readonly #running = new Set<Promise<void>>()
  #isOver = false
  #count = 0

  constructor(fleet: Fleet) {
    this.#fleet = fleet
    this.#every(lives.everyMs, () => this.#askAndOrder())
    this.#every(lives.lateEveryMs, () => this.#orderLate())
  }

  /** Late orders for quotes of the whole time: at this replica, and as many at any. */
  async orderAllLate(replica: Replica): Promise<void> {
    const late = this.#held.filter((quote) => this.#isLate(quote))
    const step = Math.max(1, late.length / maxOrderedLate)
    for (let at = 0; at < late.length; at += step) {
      const quote = late[Math.floor(at)]
      if (quote === undefined) continue
      const style = lateStyle(quote)
      await Promise.all([
        this.#send(quote, { replica, style }),
        this.#send(quote, { style }),
      ])
    }
  }

  /** Resolves when all have their answers. */
  async end(): Promise<void> {
    this.#isOver = true
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  #every(ms: number, act: () => Promise<void>): void {
    const timer = setInterval(() => {
      if (this.#isOver) return clearInterval(timer)
      const acting = act().finally(() => this.#running.delete(acting))
      this.#running.add(acting)
    }, ms)
  }

  async #askAndOrder(): Promise<void> {
    const address = `203.0.113.${1 + Math.floor(Math.random() * clients)}`
    this.#count += 1
    const kind = this.#count % 8
    if (kind === 0) return this.#orderUnreadable(address, `${this.#count}.5`)
    // Where an order states no price, only the amount tells its quote from others.
    const ways = [
      { pairId: pairs.digits, amount: oneOf(amounts), style: 'digits' },
      { pairId: pairs.cents, amount: oneOf(amounts), style: 'own' },
      { pairId: pairs.cents, amount: `${this.#count}.25`, style: 'terms' },
    ] as const
    const asked: Asked = ways[kind % 3] ?? ways[0]
    const quote = await this.#ask(address, asked)
    if (quote === undefined || Math.random() < 0.4) return
    await pause(Math.random() * Math.min(1_500, leftMs(quote) - liveBeforeMs))
    const order = await this.#order(quote)
    if (order === undefined || order.problem !== undefined) return
    if (Math.random() < 0.3) await this.#order(quote)
    await pause(againAfterMs)
    await Promise.all([this.#ask(address, asked), this.#ask(address, asked)])
  }

  /** The first answer for this amount can be read and is over by then. Only the second one, if known, lets an order pass. */
  async #orderUnreadable(address: string, amount: string): Promise<void> {
    const asked = { pairId: pairs.odd, amount, style: 'terms' as const }
    await this.#ask(address, asked)
    await pause(oddLifeMs + recordTakesMs)
    const quote = await this.#ask(address, asked)
    if (quote === undefined) return
    await pause(Math.random() * 500)
    await Promise.all(
      this.#fleet.running.map((replica) =>
        this.#send(quote, { replica, style: 'terms' }),
      ),
    )
  }

  /** By an id, or as its user would, while the quote lives. */
  async #order(quote: HeldQuote): Promise<AnsweredOrder | undefined> {
    if (leftMs(quote) < liveBeforeMs) return undefined
    return this.#send(quote, { style: Math.random() < 0.3 ? 'id' : quote.style })
  }

  /** For a quote of the last seconds, or of any time since the start. */
  async #orderLate(): Promise<void> {
    const from = Math.random() < 0.5 ? Math.max(0, this.#held.length - 100) : 0
    const quote =
      this.#held[from + Math.floor(Math.random() * (this.#held.length - from))]
    if (quote === undefined || !this.#isLate(quote)) return
    await this.#send(quote, { style: lateStyle(quote) })
  }

  /** An order that states only an amount means any quote for it, also the one that its user asked for after an order. */
  #isLate(quote: HeldQuote): boolean {
    const { pairId, fromValue, style } = quote
    const meant = this.#held.filter(
      (held) => held.pairId === pairId && held.fromValue === fromValue,
    )
    return (style === 'terms' ? meant : [quote]).every(isLate)
  }

  async #ask(
    address: string,
    { pairId, amount, style }: Asked,
  ): Promise<HeldQuote | undefined> {
    const exchanged = await this.#exchange(oneOf(this.#fleet.running), {
      path: `/v3/pairs/${pairId}/quotes?amount=${amount}`,
      headers: ['App-Name', 'wallet', 'X-Forwarded-For', address],
    })
    const { replica, sentAtMs, receivedAtMs, status, body } = exchanged
    const tookMs = receivedAtMs - sentAtMs
    const untilLateMs = recordTakesMs + (tookMs > promptMs ? fractionMs + tookMs : 0)
    const { id, fromAmount, toAmount, expiry } = status === 200 ? JSON.parse(body) : {}
    const quote: HeldQuote | undefined = id && {
      id,
      pairId,
      fromValue: fromAmount.value,
      toValue: toAmount.value,
      style,
      expiresAtMs: expiry,
      lateFromMs: expiry && expiry + untilLateMs,
      address,
      giver: replica,
      receivedAtMs,
    }
    this.asks.push({ ...exchanged, quote })
    if (expiry !== undefined && !this.#held.some((held) => held.id === id))
      this.#held.push(quote as HeldQuote)
    return quote
  }

  async #send(
    quote: HeldQuote,
    { replica = oneOf(this.#fleet.running), style }: { replica?: Replica; style: Style },
  ): Promise<AnsweredOrder> {
    this.#count += 1
    const reference = `order-${this.#count}`
    const body = JSON.stringify({
      reference,
      pairId: quote.pairId,
      fromAmount: Number(quote.fromValue),
      ...(style !== 'terms' && { toAmount: Number(quote.toValue) }),
      ...(style === 'id' && { quoteId: quote.id }),
    })
    // All its digits tell a quote wherever the order comes from.
    const address =
      style === 'digits' && Math.random() < 0.5 ? '198.51.100.7' : quote.address
    const exchanged = await this.#exchange(replica, {
      path: '/v3/orders/float',
      method: 'POST',
      headers: [
        'App-Name',
        'wallet',
        'X-Forwarded-For',
        address,
        'Content-Type',
        'application/json',
        'Content-Length',
        String(Buffer.byteLength(body)),
      ],
      body,
    })
    const [, named = 'none'] = /urn:quotegate:problem:([\w-]+)/.exec(exchanged.body) ?? []
    const problem = exchanged.status === 201 ? undefined : named
    const order = { ...exchanged, reference, quote, style, problem }
    this.orders.push(order)
    return order
  }

  async #exchange(
    replica: Replica,
    request: Parameters<typeof ask>[1],
  ): Promise<Exchanged & { body: string }> {
    const sentAtMs = Date.now()
    const { status, body } = await ask(replica.url, request).catch(() => ({
      status: 0,
      body: '',
    }))
    return { replica, sentAtMs, receivedAtMs: Date.now(), status, body }
  }
}

/** Of the odd pair, an answer that could not be read lets all pass that names no quote. */
function lateStyle({ pairId, style }: HeldQuote): Style {
  return pairId === pairs.odd || Math.random() < 0.4 ? 'id' : style
}

function isLate({ lateFromMs = Number.NaN }: HeldQuote): boolean {
  return Date.now() > lateFromMs
}

function leftMs({ expiresAtMs = Number.NaN }: HeldQuote): number {
  return expiresAtMs - Date.now()
}

function oneOf<Value>(values: readonly Value[]): Value {
  return values[Math.floor(Math.random() * values.length)] as Value
}
