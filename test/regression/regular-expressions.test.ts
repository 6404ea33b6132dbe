import { describe, expect, test } from 'vitest'
import { dateForms } from '../../src/http/http-date.ts'
import { expressionsIn, sourceFiles } from '../support/expressions/collect.ts'
import { tooSlow } from '../support/expressions/cost.ts'

// 15.8 kB of 0xA0 and an x in Content-Encoding cost 200 ms of processor: /^\s*(?:identity)?\s*$/i tried every end of the
// first run of blanks with every end of the second. 40 kB/s of it stopped the gateway.

/** A request reaches none of these. */
const seesNoRequest: Readonly<Record<string, string>> = {
  'src/config/': 'reads the settings, once, at the start',
  'src/operations/runbook.ts': 'reads docs/runbook.md, once, at the start',
}
/** Made of text; a test cannot read those out of the source. */
const builtOfText: Readonly<Record<string, readonly RegExp[]>> = {
  'src/http/http-date.ts': dateForms,
}

const reachable = sourceFiles().filter(
  (path) => !Object.keys(seesNoRequest).some((room) => path.startsWith(room)),
)
const inFiles = reachable.map((path) => ({ path, ...expressionsIn(path) }))
const found = inFiles.flatMap(({ found }) => found)

describe('no regular expression that a request can reach takes more than ten times what a harmless text takes:', () => {
  test('all of them are known', () => {
    expect(found.length).toBeGreaterThan(100)
    const files = inFiles.filter(({ built }) => built.length > 0).map(({ path }) => path)
    expect(files).toEqual(Object.keys(builtOfText))
  })

  test.each(found)('$at $expression', ({ expression }) =>
    expect(tooSlow(expression)).toBeUndefined(),
  )

  test.each(Object.values(builtOfText).flat())('%s', (expression) =>
    expect(tooSlow(expression)).toBeUndefined(),
  )
})

test.each([
  /^\s*(?:identity)?\s*$/i,
  /0+$/,
  /^a+b?a+$/,
  /^(?:a+)+$/,
  /^Bearer (?:\w+,?)+$/,
])('such an expression would be noticed: %s', (expression) =>
  expect(tooSlow(expression)).toBeDefined(),
)
