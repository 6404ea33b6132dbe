import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  Breakers,
  type Permit,
  type RequestKind,
  refusedPairs,
} from '../../src/upstream/breakers.ts'

const openMs = 5_000
const minFailingMs = 1_000
const pairs = ['A', 'B', 'C', 'D', 'E']
const kinds: readonly RequestKind[] = [
  'float-order',
  'order',
  'other',
  ...pairs.map((pair) => ({ quoteOf: pair })),
]

/** The rule of one breaker, written down once more: which failures are in the row, until when it is open, who tries. */
class ModelBreaker {
  readonly #failures: number
  /** When each failure in the row ended, and how long it had taken. */
  #row: { atMs: number; tookMs: number }[] = []
  #isOpen = false
  /** The latest, if it has not ended. */
  #trial: object | undefined
  /** Until when no request may try. */
  #waitMs = 0
  /** All who tried since it last opened out of closed. */
  #tried = new Set<object>()
  /** Who was admitted since it last closed, and when. */
  #current = new Map<object, number>()
  #ended = new Set<object>()

  constructor(failures: number) {
    this.#failures = failures
  }
  admits(nowMs: number): boolean {
    return !this.#isOpen || nowMs >= this.#waitMs
  }
  admit(request: object, nowMs: number): void {
    if (this.#isOpen) {
      this.#trial = request
      this.#waitMs = nowMs + openMs
      this.#tried.add(request)
    } else this.#current.set(request, nowMs)
  }
  close(): void {
    if (this.#isOpen) this.#current = new Map()
    this.#row = []
    this.#isOpen = false
    this.#trial = undefined
    this.#tried = new Set()
  }
  good(request: object): void {
    this.#ended.add(request)
    if (this.#tried.has(request)) this.close()
    else if (!this.#isOpen && this.#current.has(request)) this.#row = []
  }
  bad(request: object, nowMs: number): void {
    this.#ended.add(request)
    const isTrial = this.#trial === request
    const sentMs = this.#current.get(request)
    if (!isTrial) {
      if (this.#isOpen || sentMs === undefined) return
      this.#row.push({ atMs: nowMs, tookMs: nowMs - sentMs })
      if (
        this.#row.length < this.#failures ||
        nowMs - (this.#row[0]?.atMs ?? 0) < this.#minMs(nowMs)
      )
        return
    }
    this.#waitMs = nowMs + openMs
    this.#isOpen = true
    this.#trial = undefined
  }
  /** Longer while a request is unanswered that was sent longer ago than any failure in the row took. */
  #minMs(nowMs: number): number {
    const slowestMs = Math.max(...this.#row.map(({ tookMs }) => tookMs))
    const waits = [...this.#current].filter(([request]) => !this.#ended.has(request))
    return (
      minFailingMs * (waits.some(([, sentMs]) => nowMs - sentMs > slowestMs) ? 2.5 : 1)
    )
  }
  neither(request: object): void {
    this.#ended.add(request)
    if (this.#trial !== request) return
    this.#waitMs = 0
    this.#trial = undefined
  }
}

interface Underway {
  kind: RequestKind
  permit: Permit
  connecting: Permit | undefined
  phase: 'waits' | 'connects' | 'is connected'
}

class World {
  nowMs = 1_000_000
  underway: Underway[] = []
  readonly breakers
  readonly models: Record<string, ModelBreaker>

  constructor(failures: number) {
    const limits = { failures, minFailingMs, openMs, nowMs: () => this.nowMs }
    this.breakers = new Breakers(true, { ...limits, onChange() {} })
    const names = ['connections', 'orders', 'rest', ...pairs]
    this.models = Object.fromEntries(
      names.map((name) => [name, new ModelBreaker(failures)]),
    )
  }

  get connections(): ModelBreaker {
    return this.models.connections as ModelBreaker
  }

  modelOf(kind: RequestKind): ModelBreaker {
    const other = kind === 'other' ? 'rest' : 'orders'
    return this.models[typeof kind === 'object' ? kind.quoteOf : other] as ModelBreaker
  }

  expectedRefusal(kind: RequestKind): string | undefined {
    if (!this.connections.admits(this.nowMs)) return 'connections'
    if (this.modelOf(kind).admits(this.nowMs)) return undefined
    return typeof kind === 'object' ? 'pair' : kind === 'other' ? 'rest' : 'orders'
  }

  compare(): void {
    const refused = pairs.filter(
      (pair) => this.models[pair]?.admits(this.nowMs) === false,
    )
    const asked = (kind: RequestKind) => [
      this.breakers.states.connections,
      this.breakers.of(kind),
    ]
    expect({
      refusals: kinds.map(
        (kind) => asked(kind).find((one) => one?.admits() === false)?.name,
      ),
      refused: refusedPairs(this.breakers).toSorted(),
    }).toEqual({ refusals: kinds.map((kind) => this.expectedRefusal(kind)), refused })
  }

  begin(kind: RequestKind): void {
    if (this.expectedRefusal(kind) !== undefined) return
    const permit = this.breakers.of(kind)?.admit() as Permit
    const request: Underway = { kind, permit, connecting: undefined, phase: 'waits' }
    this.modelOf(kind).admit(request, this.nowMs)
    this.underway.push(request)
  }

  start(request: Underway): void {
    const permit = this.breakers.states.connections.admit()
    expect(permit !== undefined).toBe(this.connections.admits(this.nowMs))
    if (permit === undefined) return
    this.connections.admit(request, this.nowMs)
    request.connecting = permit
    request.phase = 'connects'
  }

  end(request: Underway, how: 'good' | 'bad' | 'neither'): void {
    this.underway = this.underway.filter((other) => other !== request)
    const isConnected = request.phase === 'is connected'
    if (request.phase === 'connects') {
      request.connecting?.[how === 'bad' ? 'failed' : 'abandoned']()
      if (how === 'bad') this.connections.bad(request, this.nowMs)
      else this.connections.neither(request)
    }
    const ofKind = isConnected ? how : 'neither'
    request.permit[
      ({ good: 'succeeded', bad: 'failed', neither: 'abandoned' } as const)[ofKind]
    ]()
    this.modelOf(request.kind)[ofKind](request, this.nowMs)
  }
}

const often = <const What>(times: number, what: What): What[] =>
  Array<What>(times).fill(what)
const step = fc.record({
  doing: fc.constantFrom(
    ...often(6, 'begin'),
    ...often(12, 'go on'),
    ...often(5, 'end'),
    ...often(2, 'wait'),
  ),
  kind: fc.constantFrom(...kinds),
  which: fc.nat(),
  how: fc.constantFrom<'good' | 'bad' | 'neither'>(
    'good',
    'bad',
    'bad',
    'bad',
    'neither',
  ),
  ms: fc.constantFrom(
    ...[
      1,
      minFailingMs - 1,
      minFailingMs,
      2.5 * minFailingMs,
      openMs - 1,
      openMs,
      2 * openMs,
    ],
  ),
})

test('for any failures in any order, exactly the requests that the rules name are stopped', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 3 }),
      fc.array(step, { minLength: 50, maxLength: 200 }),
      (failures, steps) => {
        const world = new World(failures)
        for (const one of steps) {
          const request = world.underway[one.which % world.underway.length]
          if (one.doing === 'wait') world.nowMs += one.ms
          else if (one.doing === 'begin') world.begin(one.kind)
          else if (request === undefined) continue
          else if (one.doing === 'end') world.end(request, one.how)
          else if (request.phase === 'waits') world.start(request)
          else if (request.phase === 'connects') {
            request.phase = 'is connected'
            request.connecting?.succeeded()
            world.connections.good(request)
            world.breakers.states.connections.close()
            world.connections.close()
          }
          world.compare()
        }
      },
    ),
    { numRuns: 500 },
  )
})
