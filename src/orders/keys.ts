import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../clock.ts'
import type { Events } from '../events.ts'
import { headerValues } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import type { Exchange } from '../server/exchange.ts'
import type { WholeAnswer } from '../upstream/fetch.ts'
import {
  bytesOf,
  decode,
  encode,
  type KeptAnswer,
  type KeptOrder,
  type State,
  stateOf,
} from './kept-order.ts'
import type { OrderTerms } from './order-terms.ts'
import { keyIn, keyProblem, lookupOf, mayBeSent } from './problems.ts'

interface Known extends KeptOrder {
  readonly claimedSteadyMs: number
}

/** What a keeper has of a key that was claimed so long ago. */
interface KeptKey {
  readonly id: string
  readonly text: string
  readonly ageMs: number
}

/**
 * Where keys are kept beyond the memory of this process: a folder, or the store that replicas share. Nothing here
 * rejects.
 */
export interface KeyKeeper {
  /** Reads what earlier processes left, if all of it is kept in memory as well. */
  read?(keys: OrderKeys): Promise<void>
  /** Returns what it has of the key. Undefined: it is claimed now, or the keeper could not be asked in time. */
  claim(id: string, text: string): Promise<Omit<KeptKey, 'id'> | undefined>
  /** The same without claiming it, where other processes write too. */
  find?(id: string): Promise<Omit<KeptKey, 'id'> | undefined>
  /**
   * Of a key that was claimed so long ago. Without a text it is free again. Resolves once that is kept, or will be when
   * the keeper is back.
   */
  settle(id: string, text: string | undefined, ageMs: number): Promise<void>
  close?(): Promise<void>
}

/** An order with a key. */
interface KeyedOrder {
  /** As `idIn` gave it. */
  readonly id: string
  readonly bytes: Buffer
  /** Undefined: its body was not read. */
  readonly terms: Pick<OrderTerms, 'toAddress'> | undefined
}

interface OrderKeysOptions {
  /** What tells the keys of one provider and fleet from those of others. */
  salt: string
  keepers: readonly KeyKeeper[]
  /** After this time an order of another process has no answer any more. */
  orderMs: number
  clock: Clock
  events: Events
}

export const keptForMs = 86_400_000
export const maxKeys = 10_000
export const maxKeptBytes = 33_554_432
/** An order that another replica claimed is over so long after its time, however slow that replica is. */
const graceMs = 5_000

/**
 * One order for one click: the order with an Idempotency-Key is sent once, and its answer is given again to each request
 * with the same key. A key is claimed before anything is sent, in memory, and where keepers are set, there.
 */
export class OrderKeys {
  readonly #options: OrderKeysOptions
  /** Whose order is on its way, or was sent with an unknown outcome, in the order of claims. None is displaced. */
  readonly #open = new Map<string, Known>()
  /** Those that may be displaced: the first was answered first. */
  readonly #answered: LRUCache<string, Known>

  constructor(options: OrderKeysOptions) {
    this.#options = options
    this.#answered = new LRUCache({
      maxSize: maxKeptBytes,
      // The LRU wants one at least.
      sizeCalculation: ({ state }) => bytesOf(state) || 1,
      disposeAfter: (known, _id, reason) => {
        if (reason === 'evict' && !this.#isOver(known)) options.events.orderKeyed('displaced')
      },
    })
  }

  get size(): number {
    return this.#open.size + this.#answered.size
  }

  /**
   * A digest of the key and of who sent it, of an order with these headers as the provider gets them; undefined: it has
   * no key.
   */
  idIn(sentHeaders: readonly string[]): string | undefined {
    const key = keyIn(sentHeaders)
    if (key === undefined) return undefined
    const [application, authorization] = ['app-name', 'authorization'].map((name) =>
      headerValues(sentHeaders, name),
    )
    return hash('sha256', JSON.stringify([this.#options.salt, application, authorization, key]), 'base64url')
  }

  /**
   * Sends the order unless its key says that it was sent. Throws the problem of a key that is in use, or whose order has
   * an answer that is not known.
   */
  async once(
    exchange: Pick<Exchange, 'target' | 'outcome'>,
    { id, bytes, terms }: KeyedOrder,
    send: () => Promise<WholeAnswer>,
  ): Promise<KeptAnswer> {
    // What two requests with one key have to share.
    const digest = hash('sha256', Buffer.concat([Buffer.from(`${exchange.target}\n`), bytes]), 'base64url')
    let known = this.#find(id)
    if (known?.state === 'left') known = (await this.#findElsewhere(id)) ?? known
    known ??= await this.#claim(id, digest)
    if (known !== undefined) {
      const answer = this.#answerAgain(known, digest, lookupOf(terms?.toAddress))
      exchange.outcome = {
        how: 'order-replayed',
        why: 'The order with this Idempotency-Key was answered before.',
      }
      return answer
    }
    let state: State | undefined
    try {
      const answer = await send()
      // The provider did not look at it.
      state = answer.status === 429 ? undefined : stateOf(answer)
      return answer
    } catch (error) {
      state = mayBeSent(error) ? 'unknown' : undefined
      throw error
    } finally {
      // Before its client has the answer: what was answered once is answered alike, whatever becomes of this process.
      await this.#settle(id, state)
    }
  }

  /** Before the first order comes. */
  async start(): Promise<void> {
    for (const keeper of this.#options.keepers) await keeper.read?.(this)
    while (this.size > maxKeys && this.#answered.pop() !== undefined);
  }

  async close(): Promise<void> {
    for (const keeper of this.#options.keepers) await keeper.close?.()
  }

  /** A key that an earlier process left. An order that was on its way then has no known answer. */
  restore(id: string, text: string, ageMs: number): void {
    const { digest, state } = decode(text)
    this.release(id)
    if (ageMs >= keptForMs) return
    const isLost = state === 'sent' || state === 'unknown'
    this.#enter(id, { digest, state: isLost ? 'left' : state, claimedSteadyMs: this.#steadyMs - ageMs })
  }

  /** All that is kept, as keepers have it. */
  *live(): Iterable<KeptKey> {
    const steadyMs = this.#steadyMs
    for (const all of [this.#open, [...this.#answered.entries()].reverse()])
      for (const [id, known] of all)
        if (!this.#isOver(known)) yield { id, text: encode(known), ageMs: steadyMs - known.claimedSteadyMs }
  }

  get #steadyMs(): number {
    return this.#options.clock.steadyMs()
  }

  #find(id: string): Known | undefined {
    for (const [oldest, claimed] of this.#open) {
      if (!this.#isOver(claimed)) break
      this.#open.delete(oldest)
    }
    const known = this.#open.get(id) ?? this.#answered.peek(id)
    return known && !this.#isOver(known) ? known : undefined
  }

  #isOver({ claimedSteadyMs }: Known): boolean {
    return this.#steadyMs - claimedSteadyMs >= keptForMs
  }

  /** Returns what a keeper knows of the key already. */
  async #claim(id: string, digest: string): Promise<Known | undefined> {
    const { events, keepers } = this.#options
    const claimed: Known = { digest, state: 'sent', claimedSteadyMs: this.#steadyMs }
    this.#enter(id, claimed)
    const found = await Promise.all(keepers.map((keeper) => keeper.claim(id, encode(claimed))))
    const other = found.find((one) => one !== undefined)
    if (other === undefined) {
      if (this.size > maxKeys && this.#answered.pop() === undefined) {
        await this.#settle(id, undefined)
        throw this.#noRoom()
      }
      events.orderKeyed('claimed')
      return undefined
    }
    this.release(id)
    await Promise.all(keepers.map((keeper, index) => found[index] ?? keeper.settle(id, undefined, 0)))
    return this.#knownOf(other)
  }

  async #findElsewhere(id: string): Promise<Known | undefined> {
    const found = await Promise.all(this.#options.keepers.map((keeper) => keeper.find?.(id)))
    const other = found.find((one) => one !== undefined)
    return other && this.#knownOf(other)
  }

  /** As a keeper has it. */
  #knownOf({ text, ageMs }: Omit<KeptKey, 'id'>): Known {
    const { digest, state } = decode(text)
    const isLost = state === 'sent' && ageMs > this.#options.orderMs + graceMs
    return { digest, state: isLost ? 'unknown' : state, claimedSteadyMs: this.#steadyMs - ageMs }
  }

  #noRoom(): Problem {
    this.#options.events.orderKeyed('refused')
    return new Problem('saturated', {
      detail:
        `${maxKeys} orders with an Idempotency-Key have no known answer, so no more can be kept apart. ` +
        'Nothing was sent to the provider.',
      headers: { 'Retry-After': '60' },
    })
  }

  #answerAgain({ digest, state }: Known, sentDigest: string, lookup: string | undefined): KeptAnswer {
    const { events } = this.#options
    if (digest !== '' && digest !== sentDigest) {
      events.orderKeyed('reused')
      throw keyProblem('idempotency-key-reused')
    }
    switch (state) {
      case 'sent':
        events.orderKeyed('in-progress')
        throw keyProblem('order-in-progress')
      case 'unknown':
      case 'left':
        events.orderKeyed('unknown')
        throw keyProblem('order-outcome-unknown', lookup)
      case 'large':
        events.orderKeyed('too-large')
        throw keyProblem('order-answered', lookup)
      default:
        events.orderKeyed('replayed')
        return { ...state, rawHeaders: [...state.rawHeaders, 'Idempotent-Replayed', 'true'] }
    }
  }

  /** Undefined: the key is free again. */
  async #settle(id: string, state: State | undefined): Promise<void> {
    const claimed = this.#open.get(id)
    if (claimed === undefined) return
    const known = state && { ...claimed, state }
    if (known === undefined) this.release(id)
    else this.#enter(id, known)
    const ageMs = this.#steadyMs - claimed.claimedSteadyMs
    await Promise.all(this.#options.keepers.map((keeper) => keeper.settle(id, known && encode(known), ageMs)))
  }

  #enter(id: string, known: Known): void {
    const { state } = known
    if (state === 'sent' || state === 'unknown' || state === 'left') this.#open.set(id, known)
    else {
      this.#open.delete(id)
      this.#answered.set(id, known)
    }
  }

  /** The key is free again. */
  release(id: string): void {
    this.#open.delete(id)
    this.#answered.delete(id)
  }
}
