import { LRUCache } from 'lru-cache'
import { type Clock, steadyMsOf } from '../clock.ts'
import type { Events } from '../events.ts'

/** As whom a quote call is made, as the provider sees it. */
export interface AskedAs {
  application: string
  /** A digest of the application and its Authorization. */
  credentials: string
  /** `unknown` for a client without an address. */
  address: string
}

export interface CoolDown {
  readonly application: string
  readonly address: string
  readonly leftMs: number
}

const maxClients = 1_000
const leastMs = 1_000
const mostMs = 30_000

/** After the provider's 429 to a quote, the same client's quotes are not asked for until its Retry-After is over. */
export class CoolDowns {
  readonly #clock: Clock
  readonly #events: Events
  readonly #byClient = new LRUCache<string, AskedAs & { untilMs: number }>({ max: maxClients })

  constructor(clock: Clock, events: Events) {
    this.#clock = clock
    this.#events = events
  }

  /** 0: the provider may be asked. */
  leftMs(client: AskedAs): number {
    if (this.#byClient.size === 0) return 0
    return this.#leftOf(this.#byClient.get(keyOf(client)))
  }

  /** `retryAfterMs`: from its Retry-After; undefined if it has none that can be read. */
  refused({ application, credentials, address }: AskedAs, retryAfterMs = 0): void {
    const forMs = Math.min(Math.max(retryAfterMs, leastMs), mostMs)
    const client = { application, credentials, address }
    const leftMs = this.leftMs(client)
    const untilMs = steadyMsOf(this.#clock) + Math.max(leftMs, forMs)
    this.#byClient.set(keyOf(client), { ...client, untilMs })
    if (leftMs === 0) this.#events.coolDownBegan(application, address, forMs)
  }

  list(): CoolDown[] {
    return [...this.#byClient.values()]
      .map((one) => ({ application: one.application, address: one.address, leftMs: this.#leftOf(one) }))
      .filter(({ leftMs }) => leftMs > 0)
  }

  #leftOf(one: { untilMs: number } | undefined): number {
    return one === undefined ? 0 : Math.max(0, one.untilMs - steadyMsOf(this.#clock))
  }
}

function keyOf({ credentials, address }: AskedAs): string {
  return `${credentials} ${address}`
}
