import { describe, expect, it } from 'vitest'
import { decide, type Given, type Ordered, Past, type Unreadable } from './guard-model.ts'

const startMs = Date.UTC(2025, 10, 20, 15, 17, 21)
const seconds = 1_000
const minutes = 60 * seconds

/** A quote of client `a` for 0.1 that lives for 30 s. */
const quote = (changes: Partial<Given> = {}): Given => {
  const endsAtMs = changes.endsAtMs ?? startMs + 30 * seconds
  const amounts = { from: '0.1', requested: '0.1', to: '289.64512345' }
  const whose = { application: 'wallet', partition: 'a' }
  const times = { givenAtMs: startMs, endsAtMs, expiresAtMs: endsAtMs }
  return { id: 'q', pair: 'A_B', ...amounts, ...whose, ...times, ...changes }
}

const unreadable = (changes: Partial<Unreadable> = {}): Unreadable => {
  const whose = { application: 'wallet', partition: 'a' }
  return { pair: 'A_B', requested: '0.1', stated: undefined, ...whose, givenAtMs: startMs, ...changes }
}

type Order = Omit<Partial<Ordered>, 'to' | 'from'> & { to?: string | number; from?: string | number }

/** What the model says of an order of client `a`, `afterMs` after the quotes were given: state and rule. */
function said(
  given: readonly (Given | Unreadable)[],
  { to, from = '0.1', ...changes }: Order,
  { afterMs = 0, marginMs = 0 } = {},
): string {
  const past = new Past()
  for (const one of given) 'id' in one ? past.note(one) : past.noteUnreadable(one)
  const spelled = (amount: string | number) => ({
    text: String(amount),
    isNumber: typeof amount === 'number',
  })
  const whose = { application: 'wallet', partition: 'a', isAddress: true }
  const stated = to === undefined ? undefined : spelled(to)
  const order = { pair: 'A_B', from: spelled(from), to: stated, ...whose, ...changes }
  const { state, rule, quoteIds } = decide(order, past, {
    nowMs: startMs + afterMs,
    marginMs,
    othersKnown: true,
  })
  return [state, rule, ...quoteIds].join(' ')
}

const late = { afterMs: 31 * seconds }
const muchLater = { afterMs: 16 * minutes }
const b = { partition: 'b' }
const addressless = { partition: undefined, isAddress: false }
const country = { partition: 'DE', isAddress: false }

describe('an order that names a quote', () => {
  it('is judged by that quote alone, whatever the application', () => {
    const other = { header: 'q', application: 'shop', to: 1, pair: 'B_A' }
    expect(said([quote()], other)).toBe('live id q')
    expect(said([quote(), quote({ id: 'lives', endsAtMs: startMs + 60 * minutes })], other, late)).toBe(
      'expired id q',
    )
  })
  it('is unknown if the id is not known, in the header or any field but a bare id', () => {
    expect(said([quote()], { header: 'x', to: '289.64512345' })).toBe('unknown id')
    expect(said([quote()], { quoteId: 'x', to: '289.64512345' })).toBe('unknown id')
    expect(said([quote()], { bareId: 'x', to: '289.64512345' })).toBe('live exact q')
  })
  it('is sent as unreadable if its partition has an unreadable answer for this pair', () => {
    expect(said([unreadable({ requested: '7' })], { header: 'x' })).toBe('unknown unreadable')
    expect(said([unreadable({ pair: 'B_A' })], { header: 'x' })).toBe('unknown id')
    expect(said([unreadable()], { header: 'x', ...b })).toBe('unknown id')
  })
  it('is live until the last quote of that id ends', () => {
    const again = quote({ endsAtMs: startMs + 60 * seconds })
    expect(said([quote(), again], { header: 'q' }, late)).toBe('live id q')
    const earlier = { ...quote(), endsAtMs: startMs + 10 * seconds }
    expect(said([quote(), earlier], { header: 'q' }, { afterMs: 11 * seconds })).toBe('expired id q')
  })
})

describe('an order that states exactly the amount of a quote', () => {
  const newer = quote({ id: 'new', to: '290', endsAtMs: startMs + 60 * minutes })
  it('is judged by the orderer own live quote, however few digits it has', () => {
    expect(said([quote({ to: '289.6' }), newer], { to: '289.60' })).toBe('live exact q')
    expect(said([quote({ to: '289.6' }), newer], { to: '289.60', ...b })).toBe('live pays new')
  })
  it('is refused for six digits of its own that expired less than 15 minutes ago, at an address', () => {
    const six = quote({ to: '289.645' })
    expect(said([six, newer], { to: '289.645' }, late)).toBe('expired exact q')
    expect(said([six, newer], { to: '289.645' }, muchLater)).toBe('live pays new')
    expect(said([quote({ to: '289.64' }), newer], { to: '289.640' }, late)).toBe('live pays new')
    expect(said([six, newer], { to: '289.645', ...b }, late)).toBe('live pays new')
    const placed = [quote({ to: '289.645', partition: 'DE' }), newer]
    expect(said(placed, { to: '289.645', ...country }, late)).toBe('live pays new')
  })
  it('is refused for eight digits of any client, however old, zeros at the end not counted', () => {
    const eight = quote({ to: '289.64512' })
    for (const client of [{}, b, addressless, country]) {
      expect(said([eight, newer], { to: '289.64512', ...client }, muchLater)).toBe('expired exact q')
    }
    expect(said([quote({ to: '289.6451' }), newer], { to: '289.64510', ...b }, late)).toBe('live pays new')
    const round = [quote({ to: '12345600' }), quote({ ...newer, to: '12345700' })]
    expect(said(round, { to: '12345600', ...b }, late)).toBe('live pays new')
  })
  it('is live if a live quote is among those that it can mean', () => {
    const sameOfB = quote({ id: 'of b', ...b, endsAtMs: startMs + 60 * minutes })
    expect(said([quote(), sameOfB], { to: '289.64512345' }, late)).toBe('live exact of b')
  })
  it('may spell a JSON number that is the nearest double, of either amount', () => {
    const long = quote({ from: '123456789.123456789', to: '0.034512345678901234' })
    const numbers = { from: 123456789.12345679, to: 0.034512345678901234 }
    expect(said([long, newer], numbers, late)).toBe('expired exact q')
    expect(said([long], { ...numbers, from: '123456789.12345679' }, late)).toBe('unknown none')
    expect(said([quote({ from: '0.1004' })], { to: '289.64512345' })).toBe('live exact q')
  })
})

describe('an order that a live quote pays', () => {
  const live = [quote({ to: '289.6475' })]
  it('is live, whichever client was given it', () => {
    expect(said(live, { to: '289.6', ...b })).toBe('live pays q')
    expect(said(live, { to: '280', ...addressless })).toBe('live pays q')
    expect(said(live, addressless)).toBe('live pays q')
  })
  it('is live if the quote rounds to it, to five digits or more, zeros at the end dropped', () => {
    expect(said(live, { to: '289.65', ...b })).toBe('live pays q')
    expect(said(live, { to: '289.648', ...b })).toBe('live pays q')
    expect(said(live, { to: '289.650000', ...b })).toBe('live pays q')
    expect(said(live, { to: '289.7', ...b })).toBe('live any q')
    expect(said(live, { to: '289.66', ...b })).toBe('live any q')
  })
})

describe('an order that no live quote pays', () => {
  const fallen = [
    quote({ to: '289.6475' }),
    quote({ id: 'new', to: '288', endsAtMs: startMs + 60 * minutes, ...b }),
  ]
  it('is refused if a quote of the last 15 minutes has that amount, exactly or rounded', () => {
    for (const to of ['289.6475', '289.65', '289.648', '289.64']) {
      expect(said(fallen, { to, ...addressless }, late), to).toBe('expired fallen q')
    }
    expect(said([quote({ to: '290' }), ...fallen.slice(1)], { to: 290, ...b }, late)).toBe('expired fallen q')
    expect(said(fallen, { to: '289.65', ...addressless }, muchLater)).toBe('live any new')
    expect(said(fallen, { to: '289.6', ...addressless }, late)).toBe('live any new')
  })
  it('is live if any candidate lives', () => {
    expect(said(fallen, { to: '288.5' }, late)).toBe('live any new')
  })
})

describe('an order of whose candidates none lives', () => {
  it('is refused if its partition was given one, or the amount is that of one, or it states none', () => {
    expect(said([quote()], { to: '200' }, muchLater)).toBe('expired none q')
    expect(said([quote()], { to: '289.65', ...b }, muchLater)).toBe('expired none q')
    expect(said([quote({ to: '290' })], { to: '290', ...b }, muchLater)).toBe('expired none q')
    expect(said([quote()], addressless, muchLater)).toBe('expired none q')
  })
  it('is unknown otherwise, and where there is no candidate', () => {
    expect(said([quote()], { to: '200', ...b }, muchLater)).toBe('unknown none')
    expect(said([quote({ partition: undefined })], { to: '200', ...addressless }, late)).toBe('unknown none')
    expect(said([quote()], { to: '289.64512345', application: 'shop' })).toBe('unknown none')
    expect(said([quote()], { to: '289.64512345', pair: 'A_C' })).toBe('unknown none')
    expect(said([quote()], { to: '289.64512345', pair: 'a_b' })).toBe('live exact q')
    expect(said([quote()], {}, { afterMs: 25 * 60 * minutes })).toBe('unknown none')
  })
})

it('names the orderer own quote before others, and of those the one that ends last', () => {
  const given = [
    quote({ id: 'own', endsAtMs: startMs + 10 * seconds }),
    quote({ id: 'own later', endsAtMs: startMs + 20 * seconds }),
    quote({ id: 'other', ...b }),
  ]
  expect(said(given, {})).toBe('live pays own later')
  expect(said(given, {}, late)).toBe('expired none own later')
  expect(said(given, {}, { afterMs: 25 * seconds })).toBe('live pays other')
})

it('takes a quote for expired when no more than the margin is left', () => {
  const judged = (leftMs: number) => said([quote()], {}, { afterMs: 30 * seconds - leftMs, marginMs: 10 })
  expect(judged(11)).toBe('live pays q')
  expect(judged(10)).toBe('expired none q')
})

describe('an unreadable answer', () => {
  const old = quote({ to: '289.645' })
  it('makes an order unknown, whatever its own partition states for that amount', () => {
    const past = [old, unreadable({ stated: '7', givenAtMs: startMs + 20 * seconds })]
    for (const to of ['289.645', '1', undefined]) {
      expect(said(past, to === undefined ? {} : { to }, late)).toBe('unknown unreadable')
    }
    expect(said(past, { to: '289.645', ...b }, late)).toBe('expired fallen q')
    expect(said(past, { from: 7, to: 1 }, late)).toBe('unknown unreadable')
    expect(said(past, { from: 8, to: 1 }, late)).toBe('unknown none')
    expect(said(past, { application: 'shop' }, late)).toBe('unknown none')
    expect(said([unreadable(addressless)], addressless)).toBe('unknown unreadable')
    expect(said([unreadable(addressless)], {})).toBe('unknown none')
  })
  it('decides before an expired quote, and a live quote before it', () => {
    const eight = quote({ to: '289.64512' })
    const past = [eight, unreadable({ givenAtMs: startMs + 20 * seconds })]
    expect(said(past, { to: '289.64512' })).toBe('live exact q')
    expect(said(past, { to: '289.64512' }, late)).toBe('unknown unreadable')
  })
  it('counts for as long as the longest-lived of the last 100 quotes lived, five minutes without one', () => {
    expect(said([unreadable()], {}, { afterMs: 5 * minutes - 1 })).toBe('unknown unreadable')
    expect(said([unreadable()], {}, { afterMs: 5 * minutes })).toBe('unknown none')
    const long = quote({ id: 'long', from: '7', requested: '7', endsAtMs: startMs + 60 * seconds })
    const short = Array.from({ length: 99 }, (_, index) =>
      quote({ id: `q${index}`, from: '7', requested: '7' }),
    )
    expect(said([long, ...short, unreadable()], {}, { afterMs: 59 * seconds })).toBe('unknown unreadable')
    expect(said([long, ...short, unreadable()], {}, { afterMs: 60 * seconds })).toBe('unknown none')
    expect(said([long, ...short, quote({ from: '7', requested: '7' }), unreadable()], {}, late)).toBe(
      'unknown none',
    )
  })
})

it('counts the last 1,000 distinct prices of its terms in rules 3 to 6, and all before', () => {
  const times = { endsAtMs: startMs + 60 * minutes, ...b }
  const crowd = Array.from({ length: 1_000 }, (_, index) =>
    quote({ id: `c${index}`, to: `100.${1000 + index}`, ...times }),
  )
  const dear = quote({ id: 'dear', to: '500', ...b, endsAtMs: startMs + 60 * minutes })
  expect(said([dear, ...crowd.slice(1)], { to: '400' })).toBe('live pays dear')
  expect(said([dear, ...crowd], { to: '400' })).toMatch(/^live any c/)
  expect(said([dear, ...crowd], { to: '500', ...b })).toBe('live exact dear')
})
