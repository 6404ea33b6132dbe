import fc from 'fast-check'
import { expect, it } from 'vitest'
import { readOrder } from '../../src/orders/order-terms.ts'

const written = fc.oneof(
  fc.json(),
  fc.constant('{"pairId":"A_B","fromAmount":1.5e-1,"quote":{"id":"\\u0041"}}'),
)
const mutated = fc
  .tuple(
    written,
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
    fc.property(written, mutated, (json, other) => {
      for (const text of [json, other]) {
        let isAnObject = false
        try {
          const value: unknown = JSON.parse(text)
          isAnObject =
            typeof value === 'object' && value !== null && !Array.isArray(value)
        } catch {}
        const { order, problem } = readOrder(Buffer.from(text), { quoteIdFields: ['id'] })
        if (!isAnObject) expect(order).toBeUndefined()
        // JSON.stringify writes no key twice.
        else if (text === json) expect(problem).toBeUndefined()
        else if (order === undefined) expect(problem).toMatch(/same key twice/)
      }
    }),
    { numRuns: 2_500 },
  )
})
