import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  type End,
  Ends,
  endIn,
  type Fate,
  leftOf,
  orderLeftMs,
  serveLeftMs,
} from '../../src/quotes/ends.ts'
import { Chance } from '../simulation/chance.ts'

const startMs = Date.UTC(2025, 10, 20, 15, 17, 21)
const seconds = 1_000
const minutes = 60 * seconds
const hours = 60 * minutes
const dayMs = 24 * hours
/** Instants are compared on two clocks, one of which counts whole milliseconds. */
const fuzzMs = 2

interface Made {
  madeMs: number
  /** How far the provider's clock is ahead where this answer was made. */
  edgeMs: number
  random: Chance['next']
}

/** The clocks of a gateway and its provider against the true time, and how answers come. */
interface World {
  ownMs?: number
  /** Each answer comes from one of these edges, whose clock writes `expiry`. */
  edgesMs?: readonly number[]
  /** What a clock shows that writes the `Date`; undefined: no `Date`. */
  dateMs?: (made: Made) => number | undefined
  ageOf?: (random: Chance['next']) => string | undefined
  lifeMs?: number
  /** The mean time between two quotes. */
  gapMs?: number
  /** The longest time that an answer is under way. */
  tripMs?: number
  /** Whether the provider makes the price at some moment before it writes the `Date`. */
  pricedFirst?: boolean
  /** When our machine sleeps, and for how long. */
  sleep?: Step
}

/** When our own clock is set, and by how much. */
interface Step {
  atMs: number
  byMs: number
}

const noSleep: Step = { atMs: startMs, byMs: 0 }

function clocks({ ownMs = 0, sleep = noSleep }: World, steps: readonly Step[]) {
  const aheadMs = (trueMs: number) =>
    steps.reduce((sum, { atMs, byMs }) => (trueMs >= atMs ? sum + byMs : sum), ownMs)
  const nowMs = (trueMs: number) => Math.floor(trueMs + aheadMs(trueMs))
  // It stands while the machine sleeps.
  const asleepMs = (trueMs: number) =>
    Math.min(Math.max(0, trueMs - sleep.atMs), sleep.byMs)
  const steadyMs = (trueMs: number) => trueMs - startMs + 12_345.678 - asleepMs(trueMs)
  return {
    nowMs,
    steadyMs,
    now: (trueMs: number) => ({ nowMs: nowMs(trueMs), steadyMs: steadyMs(trueMs) }),
  }
}

const rightDate = ({ madeMs, edgeMs }: Made) => madeMs + edgeMs

interface Answered {
  sentMs: number
  receivedMs: number
  expiresAtMs: number
  /** The instant of which the provider thinks as the expiry, in true time. */
  trueEndMs: number
  /** What its Date says, if it can be a witness. */
  dateMs: number | undefined
  becomes: Fate['becomes']
  /** How long the cache may serve it. */
  serveLeftMs(trueMs: number): number
  orderLeftMs(trueMs: number): number
}

/** Plays quotes of a world through the real function. */
function* play(
  world: World,
  count: number,
  seed: number,
  steps: readonly Step[] = [],
): Generator<Answered> {
  const {
    edgesMs = [0],
    dateMs = rightDate,
    ageOf = () => undefined,
    sleep = noSleep,
  } = world
  const { lifeMs = 30 * seconds, gapMs = 300, tripMs = 400, pricedFirst } = world
  const random = new Chance(seed).next
  const ends = new Ends({ note() {} })
  const { nowMs, steadyMs, now } = clocks(world, steps)
  const awake = (trueMs: number) =>
    trueMs > sleep.atMs ? Math.max(trueMs, sleep.atMs + sleep.byMs) : trueMs
  let trueMs = startMs

  for (let index = 0; index < count; index += 1) {
    trueMs += random() * gapMs * 2
    const sentMs = awake(trueMs)
    const madeMs = sentMs + (random() * tripMs) / 2
    const receivedMs = awake(madeMs + (random() * tripMs) / 2)
    const edgeMs = edgesMs[Math.floor(random() * edgesMs.length)] ?? 0
    const pricedMs = pricedFirst ? sentMs + random() * (madeMs - sentMs) : madeMs
    const expiresAtMs = Math.floor(pricedMs + edgeMs) + lifeMs
    const shown = dateMs({ madeMs, edgeMs, random })
    // A server writes the Date of up to a quarter of a second ago, in whole seconds.
    const cut =
      shown === undefined
        ? undefined
        : Math.floor((shown - random() * 250) / 1_000) * 1_000
    const age = ageOf(random)
    const date = cut === undefined ? undefined : new Date(cut).toUTCString()
    const sent = { sentAtMs: nowMs(sentMs), sentSteadyMs: steadyMs(sentMs) }
    const received = {
      receivedAtMs: nowMs(receivedMs),
      receivedSteadyMs: steadyMs(receivedMs),
    }
    const { becomes, end } = ends.fateOf({ date, age, ...sent, ...received }, expiresAtMs)
    const isKept = becomes === 'kept'
    yield {
      sentMs,
      receivedMs,
      expiresAtMs,
      trueEndMs: expiresAtMs - edgeMs,
      dateMs: age !== undefined && Number(age) > 0 ? undefined : cut,
      becomes,
      serveLeftMs: (at) => (isKept ? serveLeftMs(end, now(at)) : -Infinity),
      orderLeftMs: (at) => (end === undefined ? Infinity : orderLeftMs(end, now(at))),
    }
  }
}

/**
 * By how much quotes were served past their true end, and orders refused before it; how long orders passed after it. How
 * many quotes that were over when they came a caller was given, and how many that lived were asked for again.
 */
function judge(world: World, count: number, seed = 7, steps: readonly Step[] = []) {
  const result = {
    late: 0,
    refused: 0,
    over: 0,
    again: 0,
    worstLateMs: 0,
    worstRefusedMs: 0,
    worstPassedMs: 0,
    worstLostMs: 0,
  }
  for (const answer of play(world, count, seed, steps)) {
    const { trueEndMs, receivedMs, becomes } = answer
    // No caller gets it.
    if (becomes === 'ended') {
      if (trueEndMs > receivedMs + fuzzMs) result.again += 1
      continue
    }
    if (trueEndMs + fuzzMs <= receivedMs) result.over += 1
    // From either side, because a step may lie between.
    const servedForMs =
      answer.serveLeftMs(Math.max(trueEndMs + fuzzMs, receivedMs)) + fuzzMs
    if (servedForMs > fuzzMs) result.late += 1
    result.worstLateMs = Math.max(result.worstLateMs, servedForMs)
    if (trueEndMs - fuzzMs > receivedMs) {
      const leftMs = answer.orderLeftMs(trueEndMs - fuzzMs)
      if (leftMs <= 0) result.refused += 1
      result.worstRefusedMs = Math.max(result.worstRefusedMs, fuzzMs - leftMs)
      const lostMs = fuzzMs - answer.serveLeftMs(trueEndMs - fuzzMs)
      result.worstLostMs = Math.max(
        result.worstLostMs,
        Math.min(lostMs, trueEndMs - receivedMs),
      )
    }
    result.worstPassedMs = Math.max(result.worstPassedMs, answer.orderLeftMs(trueEndMs))
  }
  return result
}

const dateAhead = (byMs: number, share = 1): World => ({
  dateMs: (made) => rightDate(made) + (made.random() < share ? byMs : 0),
})
const renewedEvery = (ms: number): World => ({
  dateMs: ({ madeMs }) => Math.floor(madeMs / ms) * ms,
})
const noDate: World = { dateMs: () => undefined }
const long = { lifeMs: 2 * minutes }
const idle = { gapMs: minutes, tripMs: 24 * seconds }
const sluggish: World = {
  lifeMs: 10 * seconds,
  gapMs: 1_000,
  tripMs: 12 * seconds,
  pricedFirst: true,
}

/** Where nothing is said, no quote and no order. */
interface Allowed {
  /** The share of quotes that are served late, and of live orders that are refused, and by how much. */
  late?: number
  refused?: number
  byMs?: number
  /** The share of quotes that are asked for again though they live. */
  again?: number
  /** For how long after its end an order may pass, and for how long before it a quote may not be served. */
  passedMs?: number
  lostMs?: number
}

const worlds: [string, World, Allowed][] = [
  ['all clocks are right', {}, { passedMs: 0, lostMs: 2 }],
  ['our clock is 20 s ahead', { ownMs: 20 * seconds }, { passedMs: 1_900 }],
  // A Date is cut to a second, believed to 250 ms on either side, and was under way.
  [
    'our clock is 20 s behind',
    { ownMs: -20 * seconds },
    { passedMs: 20_000, lostMs: 2_900 },
  ],
  ['our clock is 2 h behind', { ownMs: -2 * hours }, { passedMs: 61_900 }],
  ['the provider is 5 s ahead', { edgesMs: [5_000] }, { passedMs: 5_000 }],
  ['the provider is 5 s behind', { edgesMs: [-5_000] }, { passedMs: 1_900 }],
  ['the provider is 0.3 s ahead', { edgesMs: [300] }, { late: 1, byMs: 300 }],
  ['the provider is 0.8 s behind', { edgesMs: [-800] }, { refused: 0.005, byMs: 800 }],
  ['two edges, one 1.5 s ahead', { edgesMs: [0, 1_500] }, { passedMs: 1_900 }],
  ['two edges, 4 s apart', { edgesMs: [-2_000, 2_000] }, { passedMs: 2_000 }],
  ['the Date is 29 s ahead', dateAhead(29 * seconds), { passedMs: 0 }],
  ['the Date is an hour ahead', dateAhead(hours), { passedMs: 0 }],
  [
    'a fifth of the Dates are 40 s ahead',
    dateAhead(40 * seconds, 0.2),
    { passedMs: 1_900 },
  ],
  ['the Date is an hour behind', dateAhead(-hours), { passedMs: 60_000 }],
  ['the Date stands still', { dateMs: () => startMs }, { passedMs: 60_000 }],
  ['the Date is renewed every 10 s', renewedEvery(10 * seconds), { passedMs: 11_900 }],
  [
    'a fifth of the Dates are 20 s old',
    dateAhead(-20 * seconds, 0.2),
    { passedMs: 21_900 },
  ],
  ['answers have no Date', noDate, { passedMs: 0 }],
  [
    'answers have no Date, and our clock is behind',
    { ...noDate, ownMs: -5_000 },
    { late: 1, byMs: 5_000 },
  ],
  // Where the witnesses differ by more than a minute, one that has said so for a minute is enough.
  [
    'our clock is 70 s ahead',
    { ownMs: 70 * seconds, ...long },
    { refused: 1, byMs: 10_000 },
  ],
  [
    'the Date is 70 s ahead',
    { ...dateAhead(70 * seconds), ...long },
    { refused: 1, byMs: 10_000 },
  ],
  [
    'a quote in 30 s, our clock ahead',
    { ownMs: 900, gapMs: 30 * seconds },
    { refused: 0.005, byMs: 900 },
  ],
  [
    'slow answers, the provider ahead',
    { edgesMs: [5_000], ...idle },
    { passedMs: 25_500 },
  ],
  [
    'slow answers, the provider behind',
    { edgesMs: [-5_000], ...idle },
    { passedMs: 25_500 },
  ],
  ['slow answers to short quotes', sluggish, {}],
  [
    'slow answers to short quotes, the provider ahead',
    { ...sluggish, edgesMs: [5_000] },
    { again: 0.5 },
  ],
  [
    'slow answers to short quotes, our clock far behind',
    { ...sluggish, ownMs: -20_000 },
    { again: 0.5 },
  ],
  [
    'slow answers to short quotes, the provider behind',
    { ...sluggish, edgesMs: [-5_000] },
    { again: 0.5 },
  ],
  [
    'slow answers to short quotes, the Date stands still',
    { ...sluggish, dateMs: () => startMs },
    {},
  ],
  ['slow answers to short quotes without a Date', { ...sluggish, ...noDate }, {}],
]

it.each(worlds)(
  'serves no expired quote and refuses no live order: %s',
  (_, world, allowed) => {
    const count = 3_000
    const result = judge(world, count)
    const { late, refused, over, again } = result
    const { worstLateMs, worstRefusedMs, worstPassedMs, worstLostMs } = result
    const { byMs = Infinity, passedMs = Infinity, lostMs = Infinity } = allowed
    expect(late).toBeLessThanOrEqual((allowed.late ?? 0) * count)
    expect(refused).toBeLessThanOrEqual((allowed.refused ?? 0) * count)
    expect(over).toBe(0)
    expect(again).toBeLessThanOrEqual((allowed.again ?? 0) * count)
    expect(Math.max(worstLateMs, worstRefusedMs)).toBeLessThanOrEqual(byMs + 1 + fuzzMs)
    expect(worstPassedMs).toBeLessThanOrEqual(passedMs + 1 + fuzzMs)
    expect(worstLostMs).toBeLessThanOrEqual(lostMs + fuzzMs)
  },
)

/** When a quote ends by one clock, in true time: between these. */
interface Witness {
  earliestMs: number
  latestMs: number
}

function witnessesOf(
  { sentMs, receivedMs, expiresAtMs, dateMs }: Answered,
  ownMs: number,
) {
  const wall: Witness = {
    earliestMs: expiresAtMs - ownMs,
    latestMs: expiresAtMs - ownMs,
  }
  const statedMs = dateMs === undefined ? Number.NaN : expiresAtMs - dateMs
  const dated: Witness = {
    earliestMs: sentMs + statedMs - 1_250,
    latestMs: receivedMs + statedMs,
  }
  const both = dateMs === undefined ? [wall] : [wall, dated]
  // What is closer to one of these instants than the clocks are exact is read either way.
  const isClear = both.every(({ earliestMs, latestMs }) =>
    [
      latestMs - sentMs,
      latestMs - receivedMs,
      latestMs - receivedMs - dayMs,
      earliestMs - receivedMs,
      earliestMs - receivedMs + 1_250,
    ].every((ms) => Math.abs(ms) > fuzzMs),
  )
  return { wall, both, isClear }
}

type Trust = 'right' | 'unknown' | 'wrong'

/** Which witnesses count, and what becomes of the quote. */
function model(
  { wall, both }: ReturnType<typeof witnessesOf>,
  trust: Trust,
  { sentMs, receivedMs }: Answered,
) {
  const heard = trust === 'right' ? [wall] : both
  const isWitness = ({ latestMs }: Witness) =>
    latestMs > sentMs && latestMs <= receivedMs + dayMs
  const witnesses = heard.filter(isWitness)
  const becomes = (): Fate['becomes'] => {
    const isOver = wall.latestMs <= sentMs
    if (witnesses.length === 0)
      return trust === 'right' && isOver && both.some(isWitness)
        ? 'relayed'
        : 'unreadable'
    if (witnesses.every(({ earliestMs }) => earliestMs > receivedMs)) return 'kept'
    if (witnesses.some(({ latestMs }) => latestMs <= receivedMs)) return 'ended'
    const isRounding = witnesses.every(
      ({ earliestMs }) => earliestMs > receivedMs - 1_250,
    )
    const isBacked = trust === 'unknown' && witnesses.includes(wall)
    return isRounding || isBacked ? 'relayed' : 'ended'
  }
  return { heard, witnesses, becomes: becomes() }
}

/** Served while all say that it lives, refused when all say that it is over, or one has said so for a minute. */
const isServedBy = (witnesses: readonly Witness[], atMs: number) =>
  witnesses.every(({ earliestMs }) => atMs < earliestMs)
const isRefusedBy = (witnesses: readonly Witness[], atMs: number) =>
  witnesses.every(({ latestMs }) => atMs >= latestMs) ||
  witnesses.some(({ latestMs }) => atMs - minutes >= latestMs)

/** What the answers so far say of our clock: a doubtful one is counted either way. */
class Agreement {
  /** What may be said of it now. */
  trusts: Trust[] = []
  #maySince = Infinity
  #mustSince = Infinity
  #mayAtMs = -Infinity
  #mustAtMs = -Infinity
  /** Whether a prompt answer has agreed since one contradicted. */
  #mayAgree = false
  #mustAgree = false

  note({ sentMs, receivedMs, dateMs }: Answered, ownMs: number): void {
    this.#maySince += 1
    this.#mustSince += 1
    if (dateMs !== undefined) {
      // The Date is that of an instant in the second after it, and a server may have cached it.
      const outsideMs = Math.max(
        sentMs + ownMs - (dateMs + 1_250),
        dateMs - 250 - (receivedMs + ownMs),
      )
      const slowMs = receivedMs - sentMs - 1_000
      if (outsideMs > -fuzzMs) {
        this.#mustSince = 0
        this.#mustAtMs = receivedMs
        this.#mustAgree = false
      }
      if (outsideMs > fuzzMs) {
        this.#maySince = 0
        this.#mayAtMs = receivedMs
        this.#mayAgree = false
      }
      if (Math.max(outsideMs, slowMs) <= fuzzMs) this.#mayAgree = true
      if (Math.max(outsideMs, slowMs) < -fuzzMs) this.#mustAgree = true
    }
    const isPast = (answers: number, sinceMs: number, more: number) =>
      answers > 50 && receivedMs - sinceMs > minutes + more
    const mayTrust = isPast(this.#maySince, this.#mayAtMs, -fuzzMs)
    const mustTrust = isPast(this.#mustSince, this.#mustAtMs, fuzzMs)
    this.trusts = [
      ...(mayTrust && this.#mayAgree ? (['right'] as const) : []),
      ...(mayTrust && !this.#mustAgree ? (['unknown'] as const) : []),
      ...(mustTrust ? [] : (['wrong'] as const)),
    ]
  }
}

const offMs = fc.oneof(
  { weight: 2, arbitrary: fc.constant(0) },
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      300,
      -800,
      900,
      -5_000,
      5_000,
      20_000,
      -70_000,
      70_000,
      -2 * hours,
    ),
  },
)
const dates: fc.Arbitrary<World> = fc.oneof(
  fc.constant({}),
  fc
    .tuple(offMs, fc.constantFrom(0.02, 0.2, 0.5, 1))
    .map(([byMs, share]) => dateAhead(byMs, share)),
  fc.constantFrom(10 * seconds, minutes).map(renewedEvery),
  fc.constant({ dateMs: () => startMs }),
  fc.constant(noDate),
  fc
    .constantFrom('0', '1', '30')
    .map((age): World => ({ ageOf: (random) => (random() < 0.3 ? age : undefined) })),
)
const randomWorld: fc.Arbitrary<World> = fc
  .record({
    ownMs: offMs,
    edgesMs: fc.array(offMs, { minLength: 1, maxLength: 2 }),
    dates,
    lifeMs: fc.constantFrom(
      2 * seconds,
      10 * seconds,
      30 * seconds,
      2 * minutes,
      5 * minutes,
      2 * dayMs,
    ),
    gapMs: fc.constantFrom(300, 3 * seconds, 30 * seconds),
    tripMs: fc.constantFrom(100, 400, 1_500, 24 * seconds),
    pricedFirst: fc.boolean(),
  })
  .map(({ dates, ...world }) => ({ ...world, ...dates }))

/** One Date of a hundred is wrong: it counts for a minute where answers are many, for 50 answers where they are few. */
const seldomWrong = fc
  .constantFrom(300, 3 * seconds)
  .map((gapMs): World => ({ ...dateAhead(20 * seconds, 0.01), gapMs }))
const anyWorld = fc.oneof(
  { weight: 5, arbitrary: randomWorld },
  { weight: 1, arbitrary: seldomWrong },
)

it('serves while both witnesses say that a quote lives, and refuses when both say that it is over', () => {
  const seen = {
    served: 0,
    withheld: 0,
    refused: 0,
    passed: 0,
    kept: 0,
    ended: 0,
    relayed: 0,
    unreadable: 0,
    right: 0,
    unknown: 0,
    wrong: 0,
  }

  /** Whether the answer is used as these witnesses say, a little before and after each of the instants. */
  function isAsTheySay(
    answer: Answered,
    witnesses: readonly Witness[],
    instants: readonly number[],
  ): boolean {
    return instants.every((atMs) => {
      const isServed = answer.serveLeftMs(atMs) > 0
      const isRefused = answer.orderLeftMs(atMs) <= 0
      seen[isServed ? 'served' : 'withheld'] += 1
      seen[isRefused ? 'refused' : 'passed'] += 1
      const near = [atMs - fuzzMs, atMs + fuzzMs]
      return (
        near.some((at) => isServedBy(witnesses, at) === isServed) &&
        near.some((at) => isRefusedBy(witnesses, at) === isRefused)
      )
    })
  }

  /** Where no witness is left, orders are refused by the id once all that is heard says that it is over, or never. */
  function isRefusedById(
    answer: Answered,
    heard: readonly Witness[],
    isEnough: boolean,
  ): boolean {
    const latest = heard.map(({ latestMs }) => latestMs)
    const isKnown = isEnough && latest.every((ms) => ms <= answer.receivedMs + dayMs)
    return isKnown === answer.orderLeftMs(Math.max(...latest) + fuzzMs) <= 0
  }

  fc.assert(
    fc.property(anyWorld, fc.nat(1_000_000), (world, seed) => {
      const { ownMs = 0 } = world
      const agreement = new Agreement()
      for (const answer of play(world, 300, seed)) {
        agreement.note(answer, ownMs)
        const said = witnessesOf(answer, ownMs)
        if (!said.isClear) continue
        seen[answer.becomes] += 1
        const isRight = agreement.trusts.some((trust) => {
          const { heard, witnesses, becomes } = model(said, trust, answer)
          if (becomes !== answer.becomes) return false
          seen[trust] += 1
          if (becomes === 'unreadable')
            return isRefusedById(
              answer,
              heard,
              trust === 'right' || said.both.length === 2,
            )
          const judges = witnesses.length === 0 ? heard : witnesses
          const ends = judges.flatMap(({ earliestMs, latestMs }) => [
            earliestMs,
            latestMs,
          ])
          const instants = [answer.trueEndMs, ...ends, Math.min(...ends) + minutes]
            .flatMap((at) => [at - 3, at + 3, at - 400, at + 400])
            .filter((at) => at >= answer.receivedMs)
          return isAsTheySay(answer, judges, instants)
        })
        if (isRight) continue
        throw new Error(
          `not as its witnesses say: ${JSON.stringify({ answer, said, agreement })}`,
        )
      }
    }),
    { numRuns: 200, seed: 20_251_120 },
  )
  for (const [what, times] of Object.entries(seen))
    expect(times, what).toBeGreaterThan(300)
})

it.each([
  ...[undefined, '0', '000', ' 0\t\n00 '].map((age) => [age, true] as const),
  ...['7', '07', '0\n7', '0 s', ''].map((age) => [age, false] as const),
])('the Date of an answer with the Age %j is a witness: %s', (age, isWitness) => {
  const date = `${new Date(startMs + 20 * seconds).toUTCString()} `
  const times = {
    receivedAtMs: startMs,
    sentAtMs: startMs,
    sentSteadyMs: 0,
    receivedSteadyMs: 0,
  }
  const { end } = new Ends({ note() {} }).fateOf(
    { date, age, ...times },
    startMs + 30 * seconds,
  )
  expect(end && end.servedUntilMs - startMs).toBe((isWitness ? 8.75 : 30) * seconds)
})

const soon = fc.nat(60_000).map((ms) => startMs + ms)
const runs = { numRuns: 500, seed: 20_251_120 }

function expectRight(
  ...how: [world: World, count: number, seed: number, steps?: readonly Step[]]
): void {
  const [{ ownMs = 0 }] = how
  const { late, refused, over } = judge(...how)
  expect({ late, refused }).toEqual({ late: 0, refused: 0 })
  // The first answer of a process, if we slept during its call and our clock is behind, is relayed: no Date can tell.
  if (ownMs === 0) expect(over).toBe(0)
}

it('serves nothing late and refuses no live order after a sleep, in a call or between two, whatever our clock shows', () => {
  const sleeps = fc.record({
    atMs: soon,
    byMs: fc.constantFrom(3 * seconds, 40 * seconds, 2 * hours),
  })
  const clock = fc.constantFrom(0, 40 * seconds, -40 * seconds)
  const right = fc.property(sleeps, clock, fc.nat(1_000_000), (sleep, ownMs, seed) =>
    expectRight({ sleep, ownMs, gapMs: 1_000, tripMs: 5_000 }, 60, seed),
  )
  fc.assert(right, runs)
})

it('serves nothing late and refuses no live order when our clock is set, either way, within the life of a quote', () => {
  const by = fc.constantFrom(
    ...[3 * seconds, 20 * seconds, 5 * minutes, 2 * hours].flatMap((ms) => [ms, -ms]),
  )
  const steps = fc.array(fc.record({ atMs: soon, byMs: by }), {
    minLength: 1,
    maxLength: 3,
  })
  const right = fc.property(
    steps,
    fc.constantFrom(2_000, 30_000),
    fc.nat(1_000_000),
    (set, lifeMs, seed) => expectRight({ lifeMs, gapMs: 1_000 }, 60, seed, set),
  )
  fc.assert(right, runs)
})

it('a reader with other clocks serves no longer and refuses no earlier than the writer, by two milliseconds at most', () => {
  const instants = fc.integer({ min: -4 * dayMs, max: 4 * dayMs }).map((ms) => ms / 4)
  const looks = fc
    .tuple(instants, instants)
    .map(([nowMs, steadyMs]) => ({ nowMs: startMs + nowMs, steadyMs }))
  const ends: fc.Arbitrary<End> = fc.record({
    servedUntilMs: fc.integer({ min: startMs, max: startMs + dayMs }),
    refusedFromMs: fc.integer({ min: startMs, max: startMs + dayMs }),
    wallAheadMs: instants.map((ms) => startMs + ms),
  })
  const agree = fc.property(ends, looks, looks, (end, writer, reader) => {
    const read = endIn(leftOf(end, writer), reader)
    const serveMs = serveLeftMs(end, writer) - serveLeftMs(read, reader)
    expect(serveMs).toBeGreaterThanOrEqual(0)
    expect(serveMs).toBeLessThan(2)
    const orderMs = orderLeftMs(read, reader) - orderLeftMs(end, writer)
    expect(orderMs).toBeGreaterThanOrEqual(0)
    expect(orderMs).toBeLessThan(2)
  })
  fc.assert(agree, { numRuns: 2_000 })
})
