import { hash } from 'node:crypto'
import type { Events } from '../events.ts'
import { headerValues } from '../http/headers.ts'
import type { Exchange } from '../server/exchange.ts'
import type { WholeAnswer } from '../upstream/fetch.ts'
import type { OrderTerms } from './order-terms.ts'
import type { KeptAnswer, KeyState, KnownKey, UsedKeys } from './ports.ts'
import { keyProblem, lookupOf, mayBeSent } from './problems.ts'

interface KeyedOrder {
  readonly key: string
  /** As the provider receives them. */
  readonly headers: readonly string[]
  readonly bytes: Buffer
  /** Undefined: the body is not an order that can be read. */
  readonly terms: Pick<OrderTerms, 'toAddress'> | undefined
}

interface KeyedOrdersParts {
  keys: UsedKeys
  /** Differs between providers and fleets, so that they do not share keys. */
  salt: string
  events: Events
}

const unanswered = {
  sent: { result: 'in-progress', slug: 'order-in-progress' },
  unknown: { result: 'unknown', slug: 'order-outcome-unknown' },
  large: { result: 'too-large', slug: 'order-answered' },
} as const

/**
 * Sends the order with an Idempotency-Key once, and repeats its answer to each further request. A key is claimed before
 * anything is sent.
 */
export class KeyedOrders {
  readonly #parts: KeyedOrdersParts

  constructor(parts: KeyedOrdersParts) {
    this.#parts = parts
  }

  /** Sends the order unless its key was used. Throws a problem if the first answer cannot be given again. */
  async once(
    exchange: Pick<Exchange, 'target' | 'endsAs'>,
    order: KeyedOrder,
    send: () => Promise<WholeAnswer>,
  ): Promise<KeptAnswer> {
    const { keys, events } = this.#parts
    const { bytes, terms } = order
    const id = this.#idOf(order)
    // Two requests with one key must agree in target and body.
    const digest = hash(
      'sha256',
      Buffer.concat([Buffer.from(`${exchange.target}\n`), bytes]),
      'base64url',
    )
    const known = await keys.claim(id, digest)
    if (known === 'no-room') {
      events.orderKeyed('refused')
      throw keyProblem('saturated')
    }
    if (known !== 'claimed') {
      const answer = this.#answerAgain(known, digest, lookupOf(terms?.toAddress))
      const why = 'The order with this Idempotency-Key was answered before.'
      exchange.endsAs({ how: 'order-replayed', why })
      return answer
    }
    events.orderKeyed('claimed')
    let outcome: KeyState | undefined
    try {
      const answer = await send()
      const { status, reason, rawHeaders, body } = answer
      // With 429 the provider has not looked at the order, so the key is free again.
      outcome = status === 429 ? undefined : { status, reason, rawHeaders, body }
      return answer
    } catch (error) {
      outcome = mayBeSent(error) ? 'unknown' : undefined
      throw error
    } finally {
      // Kept before the caller has the answer: after a crash, the key must not have another answer.
      await keys.settle(id, outcome)
    }
  }

  /** A digest of the key and of who sent it. */
  #idOf({ key, headers }: KeyedOrder): string {
    const [application, authorization] = ['app-name', 'authorization'].map((name) =>
      headerValues(headers, name),
    )
    return hash(
      'sha256',
      JSON.stringify([this.#parts.salt, application, authorization, key]),
      'base64url',
    )
  }

  #answerAgain(
    { digest, state }: KnownKey,
    sentDigest: string,
    lookup: string | undefined,
  ): KeptAnswer {
    const { events } = this.#parts
    if (digest !== '' && digest !== sentDigest) {
      events.orderKeyed('reused')
      throw keyProblem('idempotency-key-reused')
    }
    if (typeof state === 'string') {
      const { result, slug } = unanswered[state]
      events.orderKeyed(result)
      throw keyProblem(slug, lookup)
    }
    events.orderKeyed('replayed')
    return { ...state, rawHeaders: [...state.rawHeaders, 'Idempotent-Replayed', 'true'] }
  }
}
