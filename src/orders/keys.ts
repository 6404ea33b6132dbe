import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../clock.ts'
import type { Events } from '../events.ts'
import { headerValues } from '../http/headers.ts'
import type { Exchange } from '../server/exchange.ts'
import type { WholeAnswer } from '../upstream/fetch.ts'
import type { OrderTerms } from './order-terms.ts'
import { type KeptAnswer, keyProblem, lookupOf, mayBeSent } from './problems.ts'

/**
 * What is known of the order with a key. `sent`: it is on its way. `unknown`: the provider may have it, and its answer is
 * lost. `large`: it was answered with more than is kept. A state only goes forward, from `sent` to one of the others.
 */
type State = keyof typeof unanswered | KeptAnswer

interface Known {
  /** Of its target and its bytes; empty: they could not be read. */
  readonly digest: string
  readonly state: State
  readonly claimedSteadyMs: number
}

/** What a keeper has of a key that was claimed so long ago. */
interface Kept {
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
  claim(id: string, text: string): Promise<Kept | undefined>
  /** The same without claiming it, where other processes write too. */
  find?(id: string): Promise<Kept | undefined>
  /**
   * Of a key that was claimed so long ago. Without a text it is free again. Resolves once that is kept, or will be when
   * the keeper is back.
   */
  settle(id: string, text: string | undefined, ageMs: number): Promise<void>
  close?(): Promise<void>
}

interface KeyedOrder {
  readonly key: string
  /** As the provider gets them. */
  readonly headers: readonly string[]
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
const maxKeptBytes = 33_554_432
/** An order that another replica claimed is over so long after its time, however slow that replica is. */
const graceMs = 5_000
const maxAnswerBytes = 65_536

/** What is said where there is no answer to give again. */
const unanswered = {
  sent: { result: 'in-progress', slug: 'order-in-progress' },
  unknown: { result: 'unknown', slug: 'order-outcome-unknown' },
  large: { result: 'too-large', slug: 'order-answered' },
} as const

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
        if (reason === 'evict' && !this.#isOver(known))
          options.events.orderKeyed('displaced')
      },
    })
  }

  get size(): number {
    return this.#open.size + this.#answered.size
  }

  /** A digest of the key and of who sent it. */
  #idOf({ key, headers }: KeyedOrder): string {
    const [application, authorization] = ['app-name', 'authorization'].map((name) =>
      headerValues(headers, name),
    )
    return hash(
      'sha256',
      JSON.stringify([this.#options.salt, application, authorization, key]),
      'base64url',
    )
  }

  /**
   * Sends the order unless its key says that it was sent. Throws the problem of a key that is in use, or whose order has
   * an answer that is not known.
   */
  async once(
    exchange: Pick<Exchange, 'target' | 'outcome'>,
    order: KeyedOrder,
    send: () => Promise<WholeAnswer>,
  ): Promise<KeptAnswer> {
    const { bytes, terms } = order
    const id = this.#idOf(order)
    // What two requests with one key have to share.
    const digest = hash(
      'sha256',
      Buffer.concat([Buffer.from(`${exchange.target}\n`), bytes]),
      'base64url',
    )
    let known = this.#find(id)
    // Where the process that sent it is gone, the store may know more.
    if (known?.state === 'unknown') known = (await this.#findElsewhere(id)) ?? known
    known ??= await this.#claim(id, digest)
    if (known !== undefined) {
      const why = 'The order with this Idempotency-Key was answered before.'
      exchange.outcome = { how: 'order-replayed', why }
      return this.#answerAgain(known, digest, lookupOf(terms?.toAddress))
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
    this.release(id)
    const known = this.#knownOf({ text, ageMs })
    if (!this.#isOver(known))
      this.#enter(id, known.state === 'sent' ? { ...known, state: 'unknown' } : known)
  }

  *live(): Iterable<Kept & { readonly id: string }> {
    // All at once: they are written down in parts, and one may be answered meanwhile.
    for (const [id, known] of [...this.#open, ...[...this.#answered.entries()].reverse()])
      if (!this.#isOver(known))
        yield { id, text: encode(known), ageMs: this.#ageMsOf(known) }
  }

  #find(id: string): Known | undefined {
    for (const [oldest, claimed] of this.#open) {
      if (!this.#isOver(claimed)) break
      this.#open.delete(oldest)
    }
    const known = this.#open.get(id) ?? this.#answered.peek(id)
    return known && !this.#isOver(known) ? known : undefined
  }

  #ageMsOf({ claimedSteadyMs }: Known): number {
    return this.#options.clock.steadyMs() - claimedSteadyMs
  }

  #isOver(known: Known): boolean {
    return this.#ageMsOf(known) >= keptForMs
  }

  /** Returns what a keeper knows of the key already. */
  async #claim(id: string, digest: string): Promise<Known | undefined> {
    const { events, keepers } = this.#options
    const claimed: Known = {
      digest,
      state: 'sent',
      claimedSteadyMs: this.#options.clock.steadyMs(),
    }
    this.#enter(id, claimed)
    const found = await Promise.all(
      keepers.map((keeper) => keeper.claim(id, encode(claimed))),
    )
    const other = found.find((one) => one !== undefined)
    if (other === undefined) {
      if (this.size > maxKeys && this.#answered.pop() === undefined) {
        await this.#settle(id, undefined)
        events.orderKeyed('refused')
        throw keyProblem('saturated')
      }
      events.orderKeyed('claimed')
      return undefined
    }
    this.release(id)
    await Promise.all(
      keepers.map((keeper, index) => found[index] ?? keeper.settle(id, undefined, 0)),
    )
    return this.#knownOf(other)
  }

  async #findElsewhere(id: string): Promise<Known | undefined> {
    const found = await Promise.all(
      this.#options.keepers.map((keeper) => keeper.find?.(id)),
    )
    return found
      .map((one) => one && this.#knownOf(one))
      .find((known) => known && known.state !== 'sent')
  }

  #knownOf({ text, ageMs }: Kept): Known {
    const { digest, state } = decode(text)
    const isLost = state === 'sent' && ageMs > this.#options.orderMs + graceMs
    const claimedSteadyMs = this.#options.clock.steadyMs() - ageMs
    return { digest, state: isLost ? 'unknown' : state, claimedSteadyMs }
  }

  #answerAgain(
    { digest, state }: Known,
    sentDigest: string,
    lookup: string | undefined,
  ): KeptAnswer {
    const { events } = this.#options
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

  /** Undefined: the key is free again. */
  async #settle(id: string, state: State | undefined): Promise<void> {
    const claimed = this.#open.get(id)
    if (claimed === undefined) return
    const known = state && { ...claimed, state }
    if (known === undefined) this.release(id)
    else this.#enter(id, known)
    const ageMs = this.#ageMsOf(claimed)
    await Promise.all(
      this.#options.keepers.map((keeper) =>
        keeper.settle(id, known && encode(known), ageMs),
      ),
    )
  }

  #enter(id: string, known: Known): void {
    const { state } = known
    if (state === 'sent' || state === 'unknown') this.#open.set(id, known)
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

function stateOf({ status, reason, rawHeaders, body }: WholeAnswer): State {
  const answer = { status, reason, rawHeaders, body }
  return bytesOf(answer) > maxAnswerBytes ? 'large' : answer
}

function bytesOf(state: State): number {
  if (typeof state === 'string') return 0
  return state.rawHeaders.reduce((sum, text) => sum + text.length, state.body.length)
}

/** As keepers have it: one line of JSON. */
function encode({ digest, state }: Known): string {
  if (typeof state === 'string') return JSON.stringify({ digest, state })
  return JSON.stringify({
    digest,
    ...state,
    state: 'answered',
    body: state.body.toString('base64'),
  })
}

/** What cannot be read says that there was such an order, and no more. */
function decode(text: string): Pick<Known, 'digest' | 'state'> {
  try {
    const { digest, state, status, reason, rawHeaders, body } = JSON.parse(text)
    if (typeof digest !== 'string') throw new TypeError('no digest')
    if (Object.hasOwn(unanswered, state)) return { digest, state }
    const isAnswer =
      Number.isInteger(status) && typeof reason === 'string' && typeof body === 'string'
    const isList =
      Array.isArray(rawHeaders) && rawHeaders.every((one) => typeof one === 'string')
    if (!isAnswer || !isList) throw new TypeError('no answer')
    return {
      digest,
      state: { status, reason, rawHeaders, body: Buffer.from(body, 'base64') },
    }
  } catch {
    return { digest: '', state: 'unknown' }
  }
}
