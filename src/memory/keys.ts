import { LRUCache } from 'lru-cache'
import type { Clock } from '../clock.ts'
import type { Events } from '../events.ts'
import type { KeyState, KnownKey, UsedKeys } from '../orders/ports.ts'

const withoutAnswer = ['sent', 'unknown', 'large']

interface HeldKey extends KnownKey {
  readonly claimedSteadyMs: number
}

interface Kept {
  readonly text: string
  readonly ageMs: number
}

/** Keeps keys beyond the memory of this process: in a folder, or in the shared store. Never rejects. */
export interface KeyKeeper {
  /** Claims the key, or returns what is known of it. Also undefined without an answer in time. */
  claim(id: string, text: string): Promise<Kept | undefined>
  /** Looks the key up without claiming it, for keepers that other processes write to. */
  find?(id: string): Promise<Kept | undefined>
  /**
   * Keeps the outcome of a key that was claimed `ageMs` ago. Without a text the key is free again. Resolves once that
   * is kept, or is queued for a keeper that is away.
   */
  settle(id: string, text: string | undefined, ageMs: number): Promise<void>
  close?(): Promise<void>
}

interface OrderKeysOptions {
  keepers: readonly KeyKeeper[]
  /** After this time, an order of another process gets no answer any more. */
  orderMs: number
  clock: Clock
  events: Events
}

export const keptForMs = 86_400_000
export const maxKeys = 10_000
const maxKeptBytes = 33_554_432
/** An order of another replica has ended this long after its time limit, even if that replica is slow. */
const graceMs = 5_000
const maxAnswerBytes = 65_536

/** What became of the order with each key: in memory, and in the keepers. */
export class OrderKeys implements UsedKeys {
  readonly #options: OrderKeysOptions
  /** Keys with an order on its way or an unknown outcome, in the order of claims. None of these is displaced. */
  readonly #open = new Map<string, HeldKey>()
  /** Keys that may be displaced, in the order in which their orders were answered. */
  readonly #answered: LRUCache<string, HeldKey>

  constructor(options: OrderKeysOptions) {
    this.#options = options
    this.#answered = new LRUCache({
      maxSize: maxKeptBytes,
      // The LRU requires at least 1.
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

  /** About how many bytes of a file they take. */
  get bytes(): number {
    return this.#answered.calculatedSize * 1.4 + this.size * 250
  }

  async close(): Promise<void> {
    for (const keeper of this.#options.keepers) await keeper.close?.()
  }

  /** A key of an earlier process. If its order was on its way, its outcome is unknown. */
  restore(id: string, text: string, ageMs: number): void {
    this.release(id)
    const known = this.#knownOf({ text, ageMs })
    if (!this.#isOver(known))
      this.#enter(id, known.state === 'sent' ? { ...known, state: 'unknown' } : known)
    if (this.size > maxKeys) this.#answered.pop()
  }

  *live(): Iterable<Kept & { readonly id: string }> {
    // All at once: the keys are written in parts, and one may be answered meanwhile.
    for (const [id, known] of [...this.#open, ...[...this.#answered.entries()].reverse()])
      if (!this.#isOver(known))
        yield { id, text: encode(known), ageMs: this.#ageMsOf(known) }
  }

  #find(id: string): HeldKey | undefined {
    for (const [oldest, claimed] of this.#open) {
      if (!this.#isOver(claimed)) break
      this.#open.delete(oldest)
    }
    const known = this.#open.get(id) ?? this.#answered.peek(id)
    return known && !this.#isOver(known) ? known : undefined
  }

  #ageMsOf({ claimedSteadyMs }: HeldKey): number {
    return this.#options.clock.steadyMs() - claimedSteadyMs
  }

  #isOver(known: HeldKey): boolean {
    return this.#ageMsOf(known) >= keptForMs
  }

  async claim(id: string, digest: string): Promise<KnownKey | 'claimed' | 'no-room'> {
    const { keepers } = this.#options
    const known = this.#find(id)
    // If the process that sent the order is gone, the store may know more.
    if (known?.state === 'unknown') return (await this.#findElsewhere(id)) ?? known
    if (known !== undefined) return known
    const claimed: HeldKey = {
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
        await this.settle(id, undefined)
        return 'no-room'
      }
      return 'claimed'
    }
    this.release(id)
    await Promise.all(
      keepers.map((keeper, index) => found[index] ?? keeper.settle(id, undefined, 0)),
    )
    return this.#knownOf(other)
  }

  async #findElsewhere(id: string): Promise<HeldKey | undefined> {
    const found = await Promise.all(
      this.#options.keepers.map((keeper) => keeper.find?.(id)),
    )
    return found
      .map((one) => one && this.#knownOf(one))
      .find((known) => known && known.state !== 'sent')
  }

  #knownOf({ text, ageMs }: Kept): HeldKey {
    const { digest, state } = decode(text)
    const isLost = state === 'sent' && ageMs > this.#options.orderMs + graceMs
    const claimedSteadyMs = this.#options.clock.steadyMs() - ageMs
    return { digest, state: isLost ? 'unknown' : state, claimedSteadyMs }
  }

  async settle(id: string, outcome: KeyState | undefined): Promise<void> {
    const claimed = this.#open.get(id)
    if (claimed === undefined) return
    const known = outcome && { ...claimed, state: bounded(outcome) }
    if (known === undefined) this.release(id)
    else this.#enter(id, known)
    const ageMs = this.#ageMsOf(claimed)
    await Promise.all(
      this.#options.keepers.map((keeper) =>
        keeper.settle(id, known && encode(known), ageMs),
      ),
    )
  }

  #enter(id: string, known: HeldKey): void {
    const { state } = known
    if (state === 'sent' || state === 'unknown') this.#open.set(id, known)
    else {
      this.#open.delete(id)
      this.#answered.set(id, known)
    }
  }

  release(id: string): void {
    this.#open.delete(id)
    this.#answered.delete(id)
  }
}

function bounded(state: KeyState): KeyState {
  return bytesOf(state) > maxAnswerBytes ? 'large' : state
}

function bytesOf(state: KeyState): number {
  if (typeof state === 'string') return 0
  return state.rawHeaders.reduce((sum, text) => sum + text.length, state.body.length)
}

/** One line of JSON, as keepers store it. */
function encode({ digest, state }: KnownKey): string {
  if (typeof state === 'string') return JSON.stringify({ digest, state })
  return JSON.stringify({
    digest,
    ...state,
    state: 'answered',
    body: state.body.toString('base64'),
  })
}

/** An unreadable text shows only that there was such an order. */
function decode(text: string): KnownKey {
  try {
    const { digest, state, status, reason, rawHeaders, body } = JSON.parse(text)
    if (typeof digest !== 'string') throw new TypeError('no digest')
    if (withoutAnswer.includes(state)) return { digest, state }
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
