import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readHttpDate } from '../../src/http/http-date.ts'

const nowMs = Date.UTC(2025, 10, 20, 15, 17, 21)
const dateMs = Date.UTC(1994, 10, 6, 8, 49, 37)

describe('a date of HTTP', () => {
  it.each([
    ['as it is sent today', 'Sun, 06 Nov 1994 08:49:37 GMT'],
    ['as RFC 850 had it', 'Sunday, 06-Nov-94 08:49:37 GMT'],
    ['as asctime() writes it', 'Sun Nov  6 08:49:37 1994'],
    ['in lower case', 'sun, 06 nov 1994 08:49:37 gmt'],
    ['with a numeric zone of nothing', 'Sun, 06 Nov 1994 08:49:37 +0000'],
    ['in a zone that is ahead', 'Sun, 06 Nov 1994 10:49:37 +0200'],
    ['in a zone that is behind, on the day before', 'Sat, 05 Nov 1994 23:19:37 -0930'],
  ])('is read %s', (_how, text) => expect(readHttpDate(text, nowMs)).toBe(dateMs))

  it.each([
    '',
    '784111777',
    '1994-11-06T08:49:37Z',
    'Sun Nov 6 08:49:37 1994',
    'Sun Nov  6 08:49:37 1994 GMT',
    // No zone, another one than GMT by name, and such as cannot be.
    ...['', ' UTC', ' +00:00', ' +2400', ' +0060', ' GMT '].map(
      (zone) => `Sun, 06 Nov 1994 08:49:37${zone}`,
    ),
    // The parts of one form in another.
    ...['Sun, 6 Nov 1994', 'Sunday, 06 Nov 1994', ' Sun, 06 Nov 1994'].map(
      (day) => `${day} 08:49:37 GMT`,
    ),
    // An invalid day or time.
    ...['Mon, 06 Nov', 'Sun, 06 Nvo', 'Wed, 31 Nov', 'Sun, 00 Nov'].map(
      (day) => `${day} 1994 08:49:37 GMT`,
    ),
    ...['24:00:00', '08:60:37', '08:49:60'].map((time) => `Sun, 06 Nov 1994 ${time} GMT`),
    'Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT',
  ])('is not %j', (text) => expect(readHttpDate(text, nowMs)).toBeUndefined())

  it.each([
    ['Thursday, 20-Nov-25 15:17:21 GMT', 2025],
    ['Wednesday, 20-Nov-75 15:17:21 GMT', 2075],
    ['Saturday, 20-Nov-76 15:17:21 GMT', 1976],
  ])('of two digits for the year is at most 50 years ahead: %s', (text, year) =>
    expect(readHttpDate(text, nowMs)).toBe(Date.UTC(year, 10, 20, 15, 17, 21)),
  )

  it('of two digits for the year may lie in the next century', () => {
    expect(readHttpDate('Friday, 01-Jan-00 00:00:01 GMT', Date.UTC(2099, 11, 31))).toBe(
      Date.UTC(2100, 0, 1, 0, 0, 1),
    )
  })

  it('is read back as it was written, for any second', () => {
    const seconds = fc.integer({ min: 0, max: Date.UTC(9999, 11, 31) / 1_000 })
    fc.assert(
      fc.property(seconds, (second) => {
        expect(readHttpDate(new Date(second * 1_000).toUTCString(), nowMs)).toBe(
          second * 1_000,
        )
      }),
    )
  })
})
