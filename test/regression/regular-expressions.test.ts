import { describe, expect, test } from 'vitest'
import { dateForms } from '../../src/http/date.ts'
import { post } from '../support/clients/orders.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { expressionsIn, expressionsOf, sourceFiles } from '../support/expressions/collect.ts'
import { tooSlow } from '../support/expressions/cost.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'

// 15.8 kB of 0xA0 and an x in Content-Encoding cost 200 ms of processor: /^\s*(?:identity)?\s*$/i tried every end of the
// first run of blanks with every end of the second. 40 kB/s of it stopped the gateway.

/** A request reaches none of these. */
const seesNoRequest: Readonly<Record<string, string>> = {
  'src/config/': 'reads the settings, once, at the start',
}
/** Made of text; a test cannot read those out of the source. */
const builtOfText: Readonly<Record<string, readonly RegExp[]>> = { 'src/http/date.ts': dateForms }

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

  test.each(found)('$at $expression', ({ expression }) => expect(tooSlow(expression)).toBeUndefined())

  test.each(Object.values(builtOfText).flat())('%s', (expression) => {
    expect(tooSlow(expression)).toBeUndefined()
  })
})

describe('an expression is noticed', () => {
  test.each([
    ['that was fixed', String.raw`/^\s*(?:identity)?\s*$/i`],
    ['with a search for an end', '/0+$/'],
    ['with a search for a rest of a line', '/%00.*$/'],
    ['with two runs that may share', '/^a+b?a+$/'],
    ['with a search for a pair', '/<[^>]*>/g'],
    ['that tries every combination', '/^(?:a+)+$/'],
    ['behind something that has to come first', String.raw`/^Bearer (?:\w+,?)+$/`],
  ])('%s: %s', (_kind, literal) => {
    const [one] = expressionsOf('example.ts', `export const form = ${literal}`).found
    expect(one?.at).toBe('example.ts:1')
    expect(one && tooSlow(one.expression)).toBeDefined()
  })
})

describe('a Content-Encoding of 15.8 kB costs no processor time, whatever stands in it:', () => {
  test.each(['/v3/orders/float', '/v3/orders'])('POST %s', async (path) => {
    const upstream = await recordingUpstream((_request, response) => response.end('{}'))
    const gateway = await startGateway({ SWAP_BASE_URL: upstream.url })
    try {
      const spend = async (coding: string): Promise<number> => {
        const before = process.cpuUsage()
        for (let count = 0; count < 4; count += 1)
          await rawExchange(gateway.url, post('{}', { path, headers: [`Content-Encoding: ${coding}`] }))
        const { user, system } = process.cpuUsage(before)
        return user + system
      }
      const [blanks, letters] = ['\xa0', 'y'].map((filling) => `${filling.repeat(15_800)}x`)
      const spent = { blanks: Number.POSITIVE_INFINITY, letters: Number.POSITIVE_INFINITY }
      for (let round = 0; round < 5; round += 1) {
        spent.letters = Math.min(spent.letters, await spend(letters ?? ''))
        spent.blanks = Math.min(spent.blanks, await spend(blanks ?? ''))
      }
      expect(spent.blanks).toBeLessThan(spent.letters * 10)
    } finally {
      await gateway.close()
    }
  })
})
