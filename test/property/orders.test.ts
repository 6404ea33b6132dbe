import fc from 'fast-check'
import { expect, it } from 'vitest'
import { readOrder } from '../../src/orders/order-terms.ts'

const mutated = fc
  .tuple(
    fc.oneof(fc.json(), fc.constant('{"pairId":"A_B","fromAmount":1.5e-1,"quote":{"id":"\\u0041"}}')),
    fc.nat(),
    fc.constantFrom(...'{}[]:,"\\0-.eE+ tn\u0000\u00e9'),
    fc.boolean(),
  )
  .map(([json, where, character, replaces]) => {
    const index = where % (json.length + 1)
    return json.slice(0, index) + character + json.slice(replaces ? index + 1 : index)
  })

it('reads an order exactly where JSON.parse finds an object, unless a key is there twice', () => {
  fc.assert(
    fc.property(fc.oneof(fc.json(), mutated), (text) => {
      let isAnObject = false
      try {
        const json: unknown = JSON.parse(text)
        isAnObject = typeof json === 'object' && json !== null && !Array.isArray(json)
      } catch {}
      const { order: found, problem } = readOrder(Buffer.from(text), { quoteIdFields: ['id'] })
      if (!isAnObject) expect(found).toBeUndefined()
      else if (found === undefined) expect(problem).toMatch(/same key twice/)
    }),
    { numRuns: 5_000 },
  )
})

it('finds no key twice in what JSON.stringify writes', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (object) => {
      expect(
        readOrder(Buffer.from(JSON.stringify(object)), { quoteIdFields: ['id'] }).problem,
      ).toBeUndefined()
    }),
  )
})
