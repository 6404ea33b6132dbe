import type { ConnectionOptions } from '../../src/upstream/connection.ts'
import type { Chance } from './chance.ts'
import { Line, type Message, readMessages } from './line.ts'
import type { World } from './world.ts'

/** What the provider knows of a quote, which is the truth. */
export interface Made {
  readonly id: string
  readonly address: string
  readonly body: string
  readonly madeAtMs: number
  readonly endsAtMs: number
  /** How long its answer was under way. */
  readonly tookMs: number
  /** Whether its `Date` says the time, and every clock then did. */
  readonly isTimeKnown: boolean
}

interface Arrived {
  /** The provider did not look at it. */
  isUnread: boolean
}

type Trouble =
  | 'none'
  | 'slow'
  | 'hangs'
  | 'resets'
  | 'fails'
  | 'cuts'
  | 'limits'
  | 'refuses'

const lives = [12_000, 20_000, 30_000, 45_000] as const

/** The swap API behind the gateways: it makes quotes, takes orders, and remembers both. */
export class Provider {
  /** What happens to half of the requests. */
  trouble: Trouble = 'none'
  /** And to half of the answers. */
  dates: 'right' | 'wrong' | 'absent' = 'right'
  readonly made = new Map<string, Made>()
  /** Orders, by their Idempotency-Key, or without one by their `ref`. */
  readonly arrived = new Map<string, Arrived[]>()
  readonly #world: World
  readonly #chance: Chance

  constructor(world: World, chance: Chance) {
    this.#world = world
    this.#chance = chance
  }

  readonly connect: NonNullable<ConnectionOptions['connect']> = (_target, callback) => {
    const { timers } = this.#world
    if (this.trouble === 'refuses') {
      const refused = Object.assign(new Error('connect ECONNREFUSED'), {
        code: 'ECONNREFUSED',
      })
      timers.setTimeout(() => callback(refused, null), this.#chance.between(1, 3))
      return
    }
    timers.setTimeout(
      () => {
        const [ours, theirs] = Line.pair(['192.0.2.1', '10.0.0.1'])
        readMessages(theirs, (request) => this.#answer(theirs, request))
        callback(null, ours as never)
      },
      this.#chance.between(1, 3),
    )
  }

  #answer(line: Line, request: Message): void {
    const isOrder = request.line.startsWith('POST')
    const arrived = isOrder ? this.#take(request) : undefined
    const isHit = this.#chance.happens(0.5)
    const trouble = isHit ? this.trouble : 'none'
    const tookMs =
      this.#chance.between(1, 80) +
      (trouble === 'slow' ? this.#chance.between(200, 9_000) : 0)
    if (trouble === 'hangs') return
    this.#world.timers.setTimeout(() => {
      if (line.destroyed) return
      if (trouble === 'resets') line.resetAndDestroy()
      else if (trouble === 'fails')
        this.#write(line, this.#chance.of([500, 502, 503]), '{}')
      else if (trouble === 'limits') {
        if (arrived !== undefined) arrived.isUnread = true
        this.#write(line, 429, '{}')
      } else {
        const body = isOrder
          ? `{"id":"${request.line.length}"}`
          : this.#quote(request, tookMs)
        this.#write(line, isOrder ? 201 : 200, body, trouble)
      }
    }, tookMs)
  }

  #take({ headers, body }: Message): Arrived {
    const { ref, quoteId = '' } = JSON.parse(body)
    const arrived = { isUnread: false }
    const key = headers.get('idempotency-key')
    const before = this.arrived.get(key ?? ref) ?? []
    // While the store is away, each replica knows its own keys (docs/limits.md).
    const isExcused = key !== undefined && !this.#world.isStoreWell
    if (before.some(({ isUnread }) => !isUnread) && !isExcused)
      this.#world.wrong(`order ${key ?? ref} was written twice`)
    this.arrived.set(key ?? ref, [...before, arrived])
    this.#world.orderArrived(quoteId)
    return arrived
  }

  #quote({ line, headers }: Message, tookMs: number): string {
    const [, pairId, amount] = /pairs\/(\w+)\/quotes\?amount=(\d+)/.exec(line) ?? []
    const madeAtMs = this.#world.nowMs()
    const endsAtMs = Math.floor(madeAtMs) + this.#chance.of(lives)
    const id = `q${this.made.size}`
    const address = /for="?\[?([\w.:]+)/.exec(headers.get('forwarded') ?? '')?.[1] ?? ''
    const toAmount = `${this.#chance.between(1_000, 9_999)}.${this.#chance.between(100_000, 999_999)}1`
    const body = JSON.stringify({
      id,
      pairId,
      expiry: endsAtMs,
      fromAmount: { assetId: 'ETH', value: amount },
      toAmount: { assetId: 'USDC', value: toAmount },
    })
    const isTimeKnown = this.dates === 'right' && this.#world.areClocksRight
    this.made.set(id, { id, address, body, madeAtMs, endsAtMs, tookMs, isTimeKnown })
    return body
  }

  #write(line: Line, status: number, body: string, trouble: Trouble = 'none'): void {
    const dates = this.#chance.happens(0.5) ? this.dates : 'right'
    const wrongByMs =
      dates === 'wrong' ? this.#chance.of([-3_600_000, -20_000, 20_000, 3_600_000]) : 0
    const dateMs = this.#world.nowMs() + wrongByMs - this.#chance.between(0, 249)
    const date = dates === 'absent' ? '' : `Date: ${new Date(dateMs).toUTCString()}\r\n`
    const length = `Content-Length: ${body.length}\r\n`
    const answer = `HTTP/1.1 ${status} Said\r\nContent-Type: application/json\r\n${date}${length}\r\n${body}`
    if (trouble !== 'cuts') {
      line.write(answer)
      return
    }
    line.write(answer.slice(0, this.#chance.between(1, answer.length - 1)))
    this.#world.timers.setTimeout(() => line.resetAndDestroy(), 5)
  }
}
