import { type Clock, lookAt, type Timer } from '../clock.ts'
import type { Events } from '../events.ts'
import { foldPair } from '../http/fold-path.ts'
import { readingsOf } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'

/** Which requests a hold is for. Undefined: whatever their pair, or their application. */
export interface HoldScope {
  /** As `foldPair` has it. */
  readonly pair: string | undefined
  readonly application: string | undefined
}

/** What was said last of a scope. A release is the same hold with an end that has passed. */
export interface Hold extends HoldScope {
  readonly reason: string
  /** Whether quotes are held too, and not orders alone. */
  readonly quotes: boolean
  /** By the wall clock where it was said, and later than all that was known of the scope: the later one counts. */
  readonly saidAtMs: number
  /** How long it was to last, when it was said. */
  readonly lastsMs: number
  readonly endsSteadyMs: number
  /** The same by our wall clock, as it was when this process learned of it. */
  readonly untilMs: number
  /** Until all that it replaced would have ended, so that no replica that missed it brings back what it replaced. */
  readonly keptSteadyMs: number
}

/** A hold as it is shown. */
export interface ShownHold {
  readonly pair: string | null
  readonly application: string | null
  readonly quotes: boolean
  readonly reason: string
  /** By our wall clock. */
  readonly since: number
  readonly until: number
}

/** What a request asks for. Pair undefined: it cannot be read, so that the hold of any pair may be meant for it. */
export interface HeldRequest {
  readonly pair: string | undefined
  readonly application: string
  readonly what: 'order' | 'quote'
}

/** Where holds outlive this process. Never rejects. */
interface HoldsOnDisk {
  /** Settles once it is written, or once waiting does not help. */
  appendHold(hold: Hold): Promise<void>
}

/** Where other replicas find them. Never rejects. */
interface HoldsInStore {
  /** Takes what is later there, and puts there what is later here. Returns whether that was done. */
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
/** Of holds and releases together, so that the journal and the store stay small. */
export const maxHolds = 100

/** What operators hold: orders, and quotes if they say so. */
export class Holds {
  readonly #parts: HoldsParts
  /** What was said last of each scope, until its end. */
  readonly #said = new Map<string, Hold>()
  /** Those that began, as listeners know, and have not ended. */
  readonly #told = new Map<string, Hold>()
  /** Called when a hold begins. */
  readonly #listeners = new Set<{ look: () => void }>()
  #timer: Timer | undefined
  #isLooking = false

  constructor(parts: HoldsParts) {
    this.#parts = parts
  }

  // Requests

  /** Throws where the request is held. */
  refuse(request: HeldRequest): void {
    const hold = this.covering(request)
    if (hold !== undefined) throw this.#problem(hold, request)
  }

  /** The hold that holds the request longest. */
  covering(request: HeldRequest): Hold | undefined {
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

  /** Calls back as soon as a hold begins that holds the request. Returns how to stop that. */
  whenHeld(request: HeldRequest, refuse: (problem: Problem) => void): () => void {
    const look = () => {
      const hold = this.covering(request)
      if (hold !== undefined) refuse(this.#problem(hold, request))
    }
    return this.whenBegun(look)
  }

  /** Calls back whenever a hold begins. Returns how to stop that. */
  whenBegun(look: () => void): () => void {
    const listener = { look }
    this.#listeners.add(listener)
    return () => {
      // A Set that grows leaves its old table behind, and V8 may keep what that points to until a major collection: with
      // whole requests in it a miss copied 17 KB in place of 7 (`land` in quotes/flight.ts).
      listener.look = nothing
      this.#listeners.delete(listener)
    }
  }

  #problem(hold: Hold, { what }: HeldRequest): Problem {
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

  /** Those in force, in the order in which they began. */
  get list(): ShownHold[] {
    const { steadyMs } = lookAt(this.#parts.clock)
    return [...this.#said.values()]
      .filter((hold) => isInForce(hold, steadyMs))
      .sort((one, other) => one.saidAtMs - other.saidAtMs)
      .map(shownHold)
  }

  /**
   * Begins a hold, or replaces that of the same scope. Returns whether all replicas hear of it; undefined: there are too
   * many.
   */
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

  /** Ends the hold of exactly this scope. Undefined: there is none in force. */
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

  /** It was said here, at another replica or by an earlier process. Returns whether it was news. */
  restore(hold: Hold): boolean {
    const known = this.#said.get(keyOf(hold))
    const isOver = hold.keptSteadyMs <= this.#parts.clock.steadyMs()
    if (isOver || (known !== undefined && !isLater(hold, known))) return false
    this.#said.set(keyOf(hold), hold)
    return true
  }

  /** What is remembered, releases among it. */
  live(): readonly Hold[] {
    return [...this.#said.values()]
  }

  /** Settles once it is in the folder. */
  async take(hold: Hold): Promise<void> {
    if (!this.restore(hold)) return
    this.#tell()
    for (const listener of [...this.#listeners]) listener.look()
    await this.#parts.disk?.appendHold(hold)
  }

  /** Settles once the holds of the store were read, or the store is away. */
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

  /** Has listeners know of the begin and the end of each hold, once. */
  #tell(): void {
    const { clock, events } = this.#parts
    const { steadyMs } = lookAt(clock)
    for (const [key, hold] of this.#told) {
      const now = this.#said.get(key) ?? hold
      if (now === hold && isInForce(hold, steadyMs)) continue
      this.#told.delete(key)
      // Otherwise another one took its place, and begins.
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
 * All spellings of a pair that routers, or readers of orders, may take for the same have one name: only what the pair of a
 * hold may have counts. Some of them take a NUL or a question mark for its end. A letter such as the sign of a kelvin has
 * its ASCII letter only as a small one.
 */
export function foldedPair(pair: string): string {
  return foldPair(pair.toLowerCase())
    .replace(/[\0?].*$/s, '')
    .replace(/[^\w~:-]/g, '')
}

/** A scope has one name in the store, at every replica. */
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

/** Of two that were said at the same moment, every replica takes the same one. */
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
