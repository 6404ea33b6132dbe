import fc from 'fast-check'
import { expect, test } from 'vitest'
import { headerValues } from '../../src/http/headers.ts'
import { withVary } from '../../src/quotes/answer.ts'

test('every name and every received member is in the one Vary, once, and no other header is touched', () => {
  const name = fc.mixedCase(
    fc.constantFrom('app-name', 'origin', 'accept', 'forwarded', 'x-a'),
  )
  const line = fc
    .array(fc.oneof(name, fc.constantFrom('', ' ')), { maxLength: 4 })
    .map((members) => members.join(', '))
  const header = fc.oneof(
    fc.tuple(fc.mixedCase(fc.constant('vary')), line),
    fc.tuple(name, fc.string()),
    fc.tuple(fc.constantFrom('Varying', 'X-Vary'), line),
  )
  fc.assert(
    fc.property(
      fc.uniqueArray(name, { selector: (one) => one.toLowerCase() }),
      fc.array(header),
      (names, pairs) => {
        const headers = pairs.flat()
        const merged = withVary(headers, names)
        const isVary = ([one = '']: string[]) => one.toLowerCase() === 'vary'
        const [vary = '', ...more] = headerValues(merged, 'vary')
        expect(more).toEqual([])
        const members = vary.split(', ').map((member) => member.toLowerCase())
        const wanted = [...names, ...headerValues(headers, 'vary').join(',').split(',')]
          .map((member) => member.trim().toLowerCase())
          .filter((member) => member !== '')
        expect(members.filter((member) => member !== '').sort()).toEqual(
          [...new Set(wanted)].sort(),
        )
        expect(merged.slice(0, -2)).toEqual(pairs.filter((pair) => !isVary(pair)).flat())
      },
    ),
    { numRuns: 1_000 },
  )
})
