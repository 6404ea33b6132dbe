import { expect, it } from 'vitest'
import { decide, Past, type Spelled } from './guard-model.ts'

/**
 * Examples of each clause of the five sentences, with verdicts that were worked out by hand.
 *
 * A quote: whom it was given to, its toAmount, the seconds that are left of it (negative once it is over), and what is
 * unlike the others'. An order: its toAmount (`-`: none; `#`: a JSON number), and what is unlike the others'; `noted` is the
 * user who was given an unreadable answer. A verdict: state, rule, and the places of the quotes that it may name.
 * `a` and `b` are addresses, `DE` is a country, and `?` an unknown address.
 */
const examples = `
1. The order names a quote
a name decides over the amount                | a 7 -1, a 8 9       | 8 header=0                      | expired id 0
a name of another application                 | b 7 9 by=shop       | 8 quoteId=0                     | live id 0
a bare id that is known                       | a 7 -1, a 8 9       | 8 bareId=0                      | expired id 0
a bare id that is not known                   | a 8 9               | 8 bareId=x                      | live exact 0
a known name beside an unknown one            | a 7 -1, a 8 9       | 8 header=x quoteId=0            | expired id 0
a live name beside one that is over           | a 7 -1, a 8 9       | 8 header=0 quoteId=1            | live id 1
an unknown name                               | a 8 9               | 8 quoteId=x                     | unknown id
an unknown name, an unreadable answer         | a 8 9               | 8 header=x noted=a notedBy=shop | unknown unreadable
one that was given to another user            | a 8 9               | 8 header=x noted=b              | unknown id
a name that was forgotten                     | a 7 -86400          | 7 header=0                      | unknown id
a name while the store is away                | a 7 -1              | 7 header=0 store=away           | expired id 0

2. A live quote has exactly the amount
another user's quote                          | a 289.645 -1, b 289.645 9         | 289.645                   | live exact 1
another user's of another application         | a 289.645 -1, b 289.645 9 by=shop | 289.645                   | live exact 1
one digit, as a number                        | b 7 9, a 8 99                     | #7                        | live exact 0
zeros at the end                              | b 289.645 9                       | 289.64500                 | live exact 0
as much is left as the margin                 | a 289.645 9                       | 289.645 margin=9          | expired exact 0
a millisecond more is left                    | a 289.645 9.001                   | 289.645 margin=9          | live exact 0
another pair                                  | b 289.645 9 pair=B_A              | 289.645                   | unknown none
another case of the pair                      | b 289.645 9 pair=a_b              | 289.645                   | live exact 0
found by the amount that was asked for        | b 289.645 9 from=0.1004           | 289.645                   | live exact 0
found by the quote's own amount               | b 289.645 9 requested=0.1004      | 289.645                   | live exact 0

Between: an unreadable answer
it comes before a past quote                  | a 289.645 -1        | 289.645 noted=a                 | unknown unreadable
it comes after a live exact quote             | b 289.645 9         | 289.645 noted=a                 | live exact 0
it comes before a quote that pays             | b 290 9             | 289.645 noted=a                 | unknown unreadable
it matches by the amount that it states       | a 289.645 -1        | 289.645 noted=a requested=7 stated=0.1 | unknown unreadable
it is for another amount                      | a 289.645 -1        | 289.645 noted=a requested=7     | expired exact 0
it is another user's                          | a 289.645 -1        | 289.645 noted=b                 | expired exact 0
it is of another application                  | a 289.645 -1        | 289.645 noted=a notedBy=shop    | expired exact 0
an unknown address shares those of all such   | a 289.645 -1        | 289.645 user=? noted=?          | unknown unreadable

2. A past quote has exactly the amount
the own, six digits                           | a 289.645 -1, b 290 9             | 289.645                   | expired exact 0
the own, five digits                          | a 289.64 -1, b 290 9              | 289.64                    | live pays 1
another user's, seven digits                  | b 289.6451 -1, b 290 9            | 289.6451                  | live pays 1
seven digits and a zero                       | b 289.6451 -1, b 290 9            | 289.64510                 | live pays 1
another user's, eight digits                  | b 289.64512 -1, b 290 9           | 289.64512                 | expired exact 0
another user's of another application         | b 289.64512 -1 by=shop, b 290 9   | 289.64512                 | live pays 1
the own of another application                | a 289.64512 -1 by=shop, b 290 9   | 289.64512                 | live pays 1
a country's, seven digits                     | DE 289.6451 -1, b 290 9           | 289.6451 user=DE          | live pays 1
a country's, eight digits                     | DE 289.64512 -1, b 290 9          | 289.64512 user=DE         | expired exact 0
eight digits of 15 minutes ago                | b 289.64512 -900, b 290 9         | 289.64512                 | live pays 1
eight digits of a moment later                | b 289.64512 -899.999, b 290 9     | 289.64512                 | expired exact 0
the own six digits of 15 minutes ago          | a 289.645 -900, b 280 9           | 289.645                   | live any 1

3. A live quote pays
it gives more                                 | b 290 9                           | 289.645                   | live pays 0
one of another application gives more         | b 290 9 by=shop                   | 289.645                   | live pays 0
it is rounded up                              | b 289.64512 9                     | 289.646                   | live pays 0
it is more than one step below                | b 289.64512 9                     | 289.647                   | live any 0
four digits are not rounded                   | b 289.64 9                        | 289.7                     | live any 0
nor are zeros at the end digits               | b 289.64 9                        | 289.700                   | live any 0
the order states none                         | a 289.645 -1, b 1 9               | -                         | live pays 1
what it states is not an amount               | a 289.645 -1, b 1 9               | odd                       | live pays 1
it pays what the own past rounds to           | a 289.6451 -1, b 290 9            | 289.65                    | live pays 1
it pays, and another one ends later           | b 290 9, b 280 99                 | 289.645                   | live pays 0
the same, and the own past rounds to it       | a 289.6451 -1, b 290 9, b 280 99  | 289.65                    | live pays 1

4. The own past had the amount
it is rounded up                              | a 289.6451 -1, b 280 9            | 289.65                    | expired fallen 0
it is rounded down                            | a 289.6451 -1, b 280 9            | 289.64                    | expired fallen 0
exactly, five digits                          | a 289.65 -1, b 280 9              | 289.65                    | expired fallen 0
four digits                                   | a 289.6 -1, b 280 9               | 289.6                     | live any 1
only another application's quote lives        | a 289.6451 -1, b 280 9 by=shop    | 289.65                    | expired fallen 0
the past one is of another application        | a 289.6451 -1 by=shop, b 280 9    | 289.65                    | live any 1
another user's                                | b 289.6451 -1, b 280 9            | 289.65                    | live any 1
a country's                                   | DE 289.6451 -1, b 280 9           | 289.65 user=DE            | live any 1
15 minutes ago                                | a 289.6451 -900, b 280 9          | 289.65                    | live any 1
none lives                                    | a 289.6451 -1, a 280 -0.5         | 289.65                    | expired fallen 0
a past one that does not have it              | a 289.6451 -1, b 280 9 by=shop    | 291                       | live any 1
the store is away                             | a 289.6451 -1, b 280 9            | 289.65 store=away         | unknown store-away

5. None lives
the user was given one                        | a 1 -86399          | 289.65                          | expired none 0
a day ago                                     | a 1 -86400          | 289.65                          | unknown none
the order states none                         | a 1 -1              | -                               | expired none 0
a country was given one                       | DE 1 -1             | 289.65 user=DE                  | expired none 0
an unknown address was given one              | ? 1 -1              | 289.65 user=?                   | unknown none
the user was, of another application          | a 1 -1 by=shop      | 289.65                          | unknown none
another user had eight digits                 | b 289.64512 -86399  | 289.64512                       | expired none 0
another user had five                         | b 289.65 -86399     | 289.65                          | expired none 0
another user had four                         | b 289.6 -1          | 289.6                           | unknown none
another user's is rounded to five             | b 289.64612 -1      | 289.65                          | expired none 0
another user's is rounded to four             | b 289.64512 -1      | 289.6                           | unknown none
another user had, of another application      | b 289.64512 -1 by=shop | 289.64512                    | unknown none
another user was given one                    | b 1 -1              | 289.65                          | unknown none
another user was, the order states none       | b 1 -1              | -                               | expired none 0

Amounts
a number of 17 digits                         | b 289.645 9         | 289.645 from=#0.10000000000000001 | live exact 0
a string of 17 digits                         | b 289.645 9         | 289.645 from=0.10000000000000001  | unknown none
a number means what no double holds           | b 123456789.123456789 -1, b 9 9 | #123456789.12345679   | expired exact 0
a string does not                             | b 123456789.123456789 -1, b 9 9 | 123456789.12345679    | live any 1
a number has the digits of its double         | b 289.6 -1, b 280 9 | #289.60000000000002             | live any 1

Which quote is named
the own before the last to end                | b 290 99, a 290 9             | 290       | live exact 1
the own of another application too            | b 290 99, a 290 9 by=shop     | 290       | live exact 1
of two own the same application's             | a 290 99 by=shop, a 290 9     | 290       | live exact 1
of two others' the same application's         | b 290 99 by=shop, b 290 9     | 290       | live exact 1
the last to end                               | b 290 9, b 290 99             | 290       | live exact 1
two that end together                         | b 290 9, DE 290 9             | 290       | live exact 0 1
the own past before another user's            | b 289.64512 -1, a 289.64512 -9, b 1 9 | 289.64512 | expired exact 1
the own before another user's eight digits    | b 289.64512 -900, a 1 -999    | 289.64512 | expired none 1
`

const nowMs = 1_000 * 86_400_000
const all = { pair: 'A_B', from: '0.1', requested: '0.1', hasNumbers: false }
const partitionOf = (user: string | undefined) => (user === '?' ? undefined : user)

/** `a 289.645 -1 by=shop`: three words, and what is named. */
function read(text: string) {
  const words = text.trim().split(' ')
  const isNamed = (word: string) => word.includes('=')
  const named = words.filter(isNamed).map((word) => word.split('='))
  return {
    words: words.filter((word) => !isNamed(word)),
    named: Object.fromEntries(named) as Record<string, string>,
  }
}

function spelled(text: string): Spelled {
  return { text: text.replace('#', ''), isNumber: text.startsWith('#') }
}

function pastOf(quotes: string): Past {
  const past = new Past()
  for (const [id, quote] of quotes.split(',').entries()) {
    const { words, named } = read(quote)
    const [user, to = '', left] = words
    const { by: application = 'wallet', ...changes } = named
    const endsAtMs = nowMs + Number(left) * 1_000
    past.note({
      ...{ ...all, ...changes, id: String(id), to, application },
      partition: partitionOf(user),
      givenAtMs: endsAtMs - 30_000,
      endsAtMs,
      expiresAtMs: endsAtMs,
    })
  }
  return past
}

function judge(quotes: string, order: string): string {
  const past = pastOf(quotes)
  const { words, named } = read(order)
  const [to = '-'] = words
  const { user = 'a', from = '0.1', noted, notedBy: application = 'wallet' } = named
  const { requested = '0.1', stated, margin = '0', store, ...names } = named
  if (noted !== undefined)
    past.noteUnreadable({
      ...{ pair: 'A_B', requested, stated, application },
      partition: partitionOf(noted),
      givenAtMs: nowMs - 1_000,
    })
  const asked = {
    ...names,
    pair: 'A_B',
    from: spelled(from),
    to: to === '-' ? undefined : to === 'odd' ? to : spelled(to),
    application: 'wallet',
    partition: partitionOf(user),
    isAddress: user === 'a',
  } as const
  const at = { nowMs, marginMs: Number(margin) * 1_000, othersKnown: store !== 'away' }
  const { state, rule, quoteIds } = decide(asked, past, at)
  return [state, rule, ...quoteIds].join(' ')
}

const sections = examples.trim().split('\n\n')
const rows = sections.flatMap((section) => {
  const [heading = '', ...lines] = section.split('\n')
  return lines.map((line) => {
    const [title = '', quotes = '', order = '', verdict = ''] = line.split('|')
    return [heading, title.trim(), quotes, order, verdict.trim()] as const
  })
})

it.each(rows)('%s: %s', (_heading, _title, quotes, order, verdict) =>
  expect(judge(quotes, order)).toBe(verdict),
)
