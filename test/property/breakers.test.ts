import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Permit } from '../../src/upstream/breaker.ts'
import { createBreakers } from '../../src/upstream/breakers.ts'
import type { RequestKind } from '../../src/upstream/types.ts'

const openMs = 5_000
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
  #row: string[] = []
  #isOpen = false
  /** The latest, if it has not ended. */
  #trial: { request: object; isDoubtful: boolean } | undefined
  /** Until when no request may try, and until when none that is expected to fail. */
  #waitMs = 0
  #doubtfulWaitMs = 0
  /** All who tried since it last opened out of closed. */
  #tried = new Set<object>()
  /** Who was admitted since it last closed. */
  #current = new Set<object>()

  constructor(failures: number) {
    this.#failures = failures
  }
  get isOpen(): boolean {
    return this.#isOpen
  }
  get isFailing(): boolean {
    return this.#row.length > 0
  }
  admits(nowMs: number, isDoubtful = false): boolean {
    return !this.#isOpen || nowMs >= (isDoubtful ? this.#doubtfulWaitMs : this.#waitMs)
  }
  admit(request: object, nowMs: number, isDoubtful = false): void {
    if (this.#isOpen) {
      this.#trial = { request, isDoubtful }
      this.#wait(nowMs + openMs, isDoubtful)
      this.#tried.add(request)
    } else this.#current.add(request)
  }
  #wait(untilMs: number, isDoubtful: boolean): void {
    this.#doubtfulWaitMs = untilMs
    if (!isDoubtful) this.#waitMs = untilMs
  }
  close(): void {
    if (this.#isOpen) this.#current = new Set()
    this.#row = []
    this.#isOpen = false
    this.#trial = undefined
    this.#tried = new Set()
  }
  good(request: object): void {
    if (this.#tried.has(request)) this.close()
    else if (!this.#isOpen && this.#current.has(request)) this.#row = []
  }
  bad(request: object, nowMs: number, source: string): void {
    const isTrial = this.#trial?.request === request
    if (!isTrial && (this.#isOpen || !this.#current.has(request))) return
    this.#row.push(source)
    if (!isTrial && new Set(this.#row).size < this.#failures) return
    this.#wait(nowMs + openMs, this.#trial?.isDoubtful ?? false)
    this.#isOpen = true
    this.#trial = undefined
  }
  neither(request: object): void {
    if (this.#trial?.request !== request) return
    this.#wait(0, this.#trial.isDoubtful)
    this.#trial = undefined
  }
}

interface Underway {
  kind: RequestKind
  permit: Permit
  connecting: Permit | undefined
  /** A quote of a pair that is stopped, while quotes as a whole are not. */
  isNothingNew: boolean
  phase: 'waits' | 'connects' | 'is connected'
}

class World {
  nowMs = 1_000_000
  underway: Underway[] = []
  failures = 0
  readonly breakers
  readonly connections
  readonly orders
  readonly rest
  readonly quotes
  readonly pairs

  constructor(failures: number) {
    const create = () => new ModelBreaker(failures)
    this.breakers = createBreakers({ byKind: true, failures, openMs, nowMs: () => this.nowMs, onChange() {} })
    this.connections = create()
    this.orders = create()
    this.rest = create()
    this.quotes = create()
    this.pairs = new Map(pairs.map((pair) => [pair, create()]))
  }

  modelsOf(kind: RequestKind): [string, ModelBreaker][] {
    if (typeof kind === 'object') {
      return [
        ['quotes', this.quotes],
        ['pair', this.pairs.get(kind.quoteOf) as ModelBreaker],
      ]
    }
    return kind === 'other' ? [['rest', this.rest]] : [['orders', this.orders]]
  }

  /** A quote of a failing pair, to quotes as a whole. */
  isDoubtful(kind: RequestKind, breaker: string): boolean {
    return (
      breaker === 'quotes' && typeof kind === 'object' && (this.pairs.get(kind.quoteOf)?.isFailing ?? false)
    )
  }

  expectedRefusal(kind: RequestKind): string | undefined {
    const all: [string, ModelBreaker][] = [['connections', this.connections], ...this.modelsOf(kind)]
    return all.find(([name, model]) => !model.admits(this.nowMs, this.isDoubtful(kind, name)))?.[0]
  }

  compare(): void {
    for (const kind of kinds) {
      expect([kind, this.breakers.refusal(kind)?.breaker]).toEqual([kind, this.expectedRefusal(kind)])
    }
    const refused = pairs.filter((pair) => this.pairs.get(pair)?.admits(this.nowMs) === false)
    expect([...this.breakers.refusedPairs()].toSorted()).toEqual(refused)
  }

  begin(kind: RequestKind): void {
    if (this.breakers.refusal(kind) !== undefined) return
    const isQuote = typeof kind === 'object'
    const request: Underway = {
      kind,
      permit: this.breakers.admit(kind),
      connecting: undefined,
      isNothingNew: isQuote && (this.pairs.get(kind.quoteOf)?.isOpen ?? false) && !this.quotes.isOpen,
      phase: 'waits',
    }
    for (const [name, model] of this.modelsOf(kind).toReversed()) {
      model.admit(request, this.nowMs, this.isDoubtful(kind, name))
    }
    this.underway.push(request)
  }

  start(request: Underway): void {
    const permit = this.breakers.connections.admit()
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
      if (how === 'bad') this.connections.bad(request, this.nowMs, `${this.failures++}`)
      else this.connections.neither(request)
    }
    const ofKind = isConnected ? how : 'neither'
    request.permit[({ good: 'succeeded', bad: 'failed', neither: 'abandoned' } as const)[ofKind]]()
    for (const [name, model] of this.modelsOf(request.kind)) {
      const { kind } = request
      const isWhole = name === 'quotes' && typeof kind === 'object'
      if (isWhole && request.isNothingNew && ofKind === 'bad') continue
      model[ofKind](request, this.nowMs, isWhole ? kind.quoteOf : `${this.failures++}`)
    }
  }
}

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ what: fc.constant('begin' as const), kind: fc.constantFrom(...kinds) }),
  },
  { weight: 12, arbitrary: fc.record({ what: fc.constant('go on' as const), which: fc.nat() }) },
  {
    weight: 5,
    arbitrary: fc.record({
      what: fc.constant('end' as const),
      which: fc.nat(),
      how: fc.constantFrom(
        'good' as const,
        'bad' as const,
        'bad' as const,
        'bad' as const,
        'neither' as const,
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      what: fc.constant('wait' as const),
      ms: fc.constantFrom(1, openMs - 1, openMs, 2 * openMs),
    }),
  },
)

test('for any failures in any order, exactly the requests that the rules name are stopped', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 3 }),
      fc.array(step, { minLength: 50, maxLength: 200 }),
      (failures, steps) => {
        const world = new World(failures)
        for (const event of steps) {
          const request = 'which' in event ? world.underway[event.which % world.underway.length] : undefined
          if (event.what === 'wait') world.nowMs += event.ms
          else if (event.what === 'begin') world.begin(event.kind)
          else if (request === undefined) continue
          else if (event.what === 'end') world.end(request, event.how)
          else if (request.phase === 'waits') world.start(request)
          else if (request.phase === 'connects') {
            request.phase = 'is connected'
            world.breakers.connections.close()
            world.connections.close()
          }
          world.compare()
        }
      },
    ),
    { numRuns: 500 },
  )
})
