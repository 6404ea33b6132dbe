import { type Clock, lookAt, type Timer } from '../clock.ts'
import type { Events } from '../events.ts'
import { foldPair } from '../http/fold-path.ts'
import { readingsOf } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'

/** Which requests a hold is for. Undefined: any pair, or any application. */
export interface HoldScope {
  /** As `foldPair` writes it. */
  readonly pair: string | undefined
  readonly application: string | undefined
}

/** The latest statement about a scope. A release is the same hold with an end that has passed. */
export interface Hold extends HoldScope {
  readonly reason: string
  /** Whether quotes are held too. */
  readonly quotes: boolean
  /**
   * By the wall clock of the replica that said it. Always later than the statement before, because the later one
   * counts.
   */
  readonly saidAtMs: number
  /** How long the hold was to last when it began. */
  readonly lastsMs: number
  readonly endsSteadyMs: number
  /** The end by our wall clock, as of the moment when this process learned of the hold. */
  readonly untilMs: number
  /**
   * Kept until all that it replaced would have ended. Otherwise a replica that missed it could bring an older hold
   * back.
   */
  readonly keptSteadyMs: number
}

/** A hold for the console. */
export interface ShownHold {
  readonly pair: string | null
  readonly application: string | null
  readonly quotes: boolean
  readonly reason: string
  /** By our wall clock. */
  readonly since: number
  readonly until: number
}

/** A request that a hold may cover. Pair undefined: it cannot be read, so a hold of any pair counts. */
export interface HoldableRequest {
  readonly pair: string | undefined
  readonly application: string
  readonly what: 'order' | 'quote'
}

/** The folder, where holds outlive this process. Never rejects. */
interface HoldsOnDisk {
  /** Settles once the hold is written, or once waiting does not help. */
  appendHold(hold: Hold): Promise<void>
}

/** The store, where other replicas find holds. Never rejects. */
interface HoldsInStore {
  /** Takes the store's later statements, and stores ours that are later. Returns whether that worked. */
  exchange(holds: Holds, insists: boolean): Promise<boolean>
}

interface HoldsParts {
  clock: Clock
  events: Events
  disk: HoldsOnDisk | undefined
  shared: HoldsInStore | undefined
}

const lookEveryMs = 500
const nothing = (): void => {}
/** Limits holds and releases together, to keep the journal and the store small. */
export const maxHolds = 100

export class Holds {
  readonly #parts: HoldsParts
  /** The latest statement about each scope, until its end. */
  readonly #said = new Map<string, Hold>()
  /** Holds whose beginning was reported, and whose end was not. */
  readonly #told = new Map<string, Hold>()
  readonly #listeners = new Set<{ look: () => void }>()
  #timer: Timer | undefined
  #isLooking = false

  constructor(parts: HoldsParts) {
    this.#parts = parts
  }

  // Requests

  refuse(request: HoldableRequest): void {
    const hold = this.covering(request)
    if (hold !== undefined) throw this.#problem(hold, request)
  }

  /** The hold on the request that ends last. */
  covering(request: HoldableRequest): Hold | undefined {
    // Most gateways hold nothing.
    if (this.#said.size === 0) return undefined
    const pair = request.pair === undefined ? undefined : foldedPair(request.pair)
    const { steadyMs } = lookAt(this.#parts.clock)
    let longest: Hold | undefined
    for (const hold of this.#said.values()) {
      const isMeant =
        (hold.quotes || request.what === 'order') &&
        (hold.pair === undefined || pair === undefined || hold.pair === pair) &&
        (hold.application === undefined ||
          readingsOf(hold.application).includes(request.application))
      if (isMeant && isInForce(hold, steadyMs) && !endsFirst(hold, longest))
        longest = hold
    }
    return longest
  }

  /** Calls `refuse` as soon as a hold on the request begins. Returns a function that stops this. */
  whenHeld(request: HoldableRequest, refuse: (problem: Problem) => void): () => void {
    const look = () => {
      const hold = this.covering(request)
      if (hold !== undefined) refuse(this.#problem(hold, request))
    }
    return this.whenBegun(look)
  }

  /** Calls `look` whenever a hold begins. Returns a function that stops this. */
  whenBegun(look: () => void): () => void {
    const listener = { look }
    this.#listeners.add(listener)
    return () => {
      // A Set that grows leaves its old table behind, as a Map does (`land` in quotes/flight.ts). With whole requests in
      // that table a miss copied 17 KB in minor collections; without them it copies 7.
      listener.look = nothing
      this.#listeners.delete(listener)
    }
  }

  #problem(hold: Hold, { what }: HoldableRequest): Problem {
    const { reason, untilMs: until } = hold
    const leftMs = hold.endsSteadyMs - this.#parts.clock.steadyMs()
    const held = what === 'order' ? 'This order is' : 'Quotes of this kind are'
    return new Problem('held', {
      detail:
        `${held} held by the operators of the gateway until ${new Date(until).toISOString()}: ${reason}. ` +
        'Nothing was sent to the provider.',
      members: { reason, until },
      headers: { 'Retry-After': String(Math.max(1, Math.ceil(leftMs / 1_000))) },
    })
  }

  // Operators

  /** The holds in force, in the order in which they began. */
  get list(): ShownHold[] {
    const { steadyMs } = lookAt(this.#parts.clock)
    return [...this.#said.values()]
      .filter((hold) => isInForce(hold, steadyMs))
      .sort((one, other) => one.saidAtMs - other.saidAtMs)
      .map(shownHold)
  }

  /** Also replaces the hold of the same scope. Returns whether all replicas learn of it. Undefined: too many exist. */
  async hold(
    scope: HoldScope,
    { quotes, reason, lastsMs }: Pick<Hold, 'quotes' | 'reason' | 'lastsMs'>,
  ): Promise<boolean | undefined> {
    await this.#exchange({ insists: false })
    const known = this.#said.get(keyOf(scope))
    if (known === undefined && this.#said.size >= maxHolds) return undefined
    const { nowMs, steadyMs } = lookAt(this.#parts.clock)
    const endsSteadyMs = steadyMs + lastsMs
    const keptSteadyMs = Math.max(endsSteadyMs, known?.keptSteadyMs ?? 0)
    const { pair, application } = scope
    return this.#say({
      pair,
      application,
      quotes,
      reason,
      lastsMs,
      endsSteadyMs,
      untilMs: Math.round(nowMs + lastsMs),
      keptSteadyMs,
    })
  }

  /** Ends the hold of exactly this scope. Undefined: none is in force. */
  async release(scope: HoldScope): Promise<boolean | undefined> {
    await this.#exchange({ insists: false })
    const hold = this.#said.get(keyOf(scope))
    const { steadyMs } = lookAt(this.#parts.clock)
    if (hold === undefined || !isInForce(hold, steadyMs)) return undefined
    return this.#say({ ...hold, endsSteadyMs: steadyMs })
  }

  async #say(said: Omit<Hold, 'saidAtMs'>): Promise<boolean> {
    const before = this.#said.get(keyOf(said))?.saidAtMs ?? 0
    const saidAtMs = Math.max(Math.round(this.#parts.clock.nowMs()), before + 1)
    const written = this.take({ ...said, saidAtMs })
    const isShared = await this.#exchange({ insists: true })
    await written
    return isShared
  }

  // Memory

  /** Takes a hold of another replica or of an earlier process. Returns whether it was news. */
  restore(hold: Hold): boolean {
    const known = this.#said.get(keyOf(hold))
    const isOver = hold.keptSteadyMs <= this.#parts.clock.steadyMs()
    if (isOver || (known !== undefined && !isLater(hold, known))) return false
    this.#said.set(keyOf(hold), hold)
    return true
  }

  /** Everything that is remembered, including releases. */
  live(): readonly Hold[] {
    return [...this.#said.values()]
  }

  /** Settles once the hold is in the folder. */
  async take(hold: Hold): Promise<void> {
    if (!this.restore(hold)) return
    this.#tell()
    for (const listener of [...this.#listeners]) listener.look()
    await this.#parts.disk?.appendHold(hold)
  }

  /** Settles once the store's holds were read, or the store is away. */
  async start(): Promise<void> {
    this.#tell()
    await this.#exchange({ insists: true })
    const { timers } = this.#parts.clock
    this.#timer = timers.setInterval(() => void this.#look(), lookEveryMs).unref()
  }

  close(): void {
    this.#parts.clock.timers.clear(this.#timer)
  }

  async #look(): Promise<void> {
    this.#tell()
    const { steadyMs } = lookAt(this.#parts.clock)
    for (const [key, { keptSteadyMs }] of this.#said)
      if (keptSteadyMs <= steadyMs) this.#said.delete(key)
    if (this.#isLooking) return
    this.#isLooking = true
    await this.#exchange({ insists: false })
    this.#isLooking = false
  }

  /** Reports the beginning and the end of each hold to listeners, once. */
  #tell(): void {
    const { clock, events } = this.#parts
    const { steadyMs } = lookAt(clock)
    for (const [key, hold] of this.#told) {
      const now = this.#said.get(key) ?? hold
      if (now === hold && isInForce(hold, steadyMs)) continue
      this.#told.delete(key)
      // Otherwise a new hold took its place, and begins below.
      if (!isInForce(now, steadyMs))
        events.holdEnded(shownHold(hold), now === hold ? 'over' : 'released')
    }
    for (const [key, hold] of this.#said) {
      if (this.#told.has(key) || !isInForce(hold, steadyMs)) continue
      this.#told.set(key, hold)
      events.holdBegan(shownHold(hold))
    }
  }

  async #exchange({ insists }: { insists: boolean }): Promise<boolean> {
    return (await this.#parts.shared?.exchange(this, insists)) ?? false
  }
}

/**
 * Gives one name to all spellings of a pair that routers or readers of orders may take as equal, out of the characters
 * that a hold's pair may have. Some readers end a text at a NUL or a question mark. Letters such as the Kelvin sign
 * become ASCII only in lower case.
 */
export function foldedPair(pair: string): string {
  return foldPair(pair.toLowerCase())
    .replace(/[\0?].*$/s, '')
    .replace(/[^\w~:-]/g, '')
}

/** The name of a scope in the store, the same at every replica. */
export function keyOf({ pair, application }: HoldScope): string {
  return JSON.stringify([pair ?? 0, application ?? 0])
}

function shownHold(hold: Hold): ShownHold {
  const { pair = null, application = null, quotes, reason, untilMs: until } = hold
  return { pair, application, quotes, reason, since: until - hold.lastsMs, until }
}

function isInForce({ endsSteadyMs }: Hold, steadyMs: number): boolean {
  return endsSteadyMs > steadyMs
}

/** Every replica chooses the same one of two that were said at the same moment. */
export function isLater(hold: Hold, other: Hold): boolean {
  if (hold.saidAtMs !== other.saidAtMs) return hold.saidAtMs > other.saidAtMs
  return contentOf(hold) > contentOf(other)
}

function contentOf({ reason, quotes, lastsMs }: Hold): string {
  return JSON.stringify([reason, quotes, lastsMs])
}

function endsFirst({ endsSteadyMs }: Hold, other: Hold | undefined): boolean {
  return other !== undefined && endsSteadyMs <= other.endsSteadyMs
}
