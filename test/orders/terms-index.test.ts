import { expect, test } from 'vitest'
import { readOrder } from '../../src/orders/order-terms.ts'
import { statedAmountOf } from '../../src/orders/stated-amount.ts'
import { createTermsIndex } from '../../src/orders/terms-index.ts'

/** Buckets that an order reads: two by its toAmount, its partition's, and the one of its pair and from amount. */
const maxBuckets = 4
const bucketSize = 64

/** An index of quotes with one pair, from amount and application, and how many different ones are read by `find`. */
function crowded({ size, toValueOf }: { size: number; toValueOf(index: number): string }) {
  const read = new Set<string>()
  const index = createTermsIndex()
  for (let at = 0; at < size; at += 1) {
    const id = `q${at}`
    const seen = <Value>(value: Value): Value => {
      read.add(id)
      return value
    }
    index.add(
      {
        id,
        get pairId() {
          return seen('ETH_USDC')
        },
        get toValue() {
          return seen(toValueOf(at))
        },
        fromValue: '0.1',
        requestedAmount: '0.1',
        application: 'wallet',
        partition: at % 2 === 0 ? 'own' : `client ${at}`,
        expiresAtMs: at,
      },
      ({ expiresAtMs }) => expiresAtMs,
    )
  }
  return (toAmount: string) => {
    const body = Buffer.from(`{"pairId":"ETH_USDC","fromAmount":0.1,"toAmount":${toAmount}}`)
    const { order } = readOrder(body, { quoteIdFields: [] })
    if (order === undefined) throw new Error('the order cannot be read')
    read.clear()
    const found = index.find(order, { application: 'wallet', partition: 'own' }, statedAmountOf(order))
    return { found: found.length, read: read.size }
  }
}

test.each([
  ['with the same first digits', (index: number) => `289.64${String(index).padStart(6, '0')}`],
  ['all over', (index: number) => `289.${String((index * 7_919) % 1_000_000).padStart(6, '0')}`],
])(
  'an order examines at most a few hundred quotes, however many have its terms: prices %s',
  (_what, toValueOf) => {
    const find = crowded({ size: 5_000, toValueOf })
    for (const toAmount of ['289.64', '289.645', '289.640001', '289.6', '290', '0.1']) {
      const { found, read } = find(toAmount)
      expect(read, toAmount).toBeGreaterThan(0)
      expect(read, toAmount).toBeLessThanOrEqual(maxBuckets * bucketSize)
      expect(found, toAmount).toBeLessThanOrEqual(maxBuckets * bucketSize)
    }
  },
)
