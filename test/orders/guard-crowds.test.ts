import { describe, expect, it } from 'vitest'
import { completeClock } from '../../src/clock.ts'
import type { NotedQuote } from '../../src/journal/journal.ts'
import { decide } from '../../src/orders/guard.ts'
import { Ledger } from '../../src/orders/ledger.ts'
import { readOrder } from '../../src/orders/order-terms.ts'

const lifeMs = 60_000

/** A guard whose clocks go on by `wait` alone. */
function guardOf({ entries = 200_000 } = {}) {
  let steadyMs = 0
  let noted = 0
  const now = () => 1_763_651_841_481 + steadyMs
  const ledger = new Ledger({
    entries,
    retentionMs: 86_400_000,
    clock: completeClock({ nowMs: now, steadyMs: () => steadyMs }),
  })
  return {
    ledger,
    wait(ms: number) {
      steadyMs += ms
    },
    note(quote: Partial<NotedQuote> = {}): NotedQuote {
      noted += 1
      const whole = {
        id: `q${noted}`,
        pairId: 'ETH_USDC',
        application: 'wallet',
        partition: 'own',
        fromValue: '1',
        requestedAmount: '1',
        toValue: '2896.45',
        cacheKey: `key ${noted}`,
        notedAtMs: now(),
        expiresAtMs: now() + lifeMs,
        refusedFromMs: now() + lifeMs,
        wallAheadMs: now() - steadyMs,
        ...quote,
      }
      ledger.note(whole)
      return whole
    },
    judge(json: string, partition = 'own') {
      const { order } = readOrder(Buffer.from(`{"pairId":"ETH_USDC",${json}}`), { quoteIdFields: ['id'] })
      if (order === undefined) throw new Error('not an order')
      const orderer = { application: 'wallet', partition, isAddress: true }
      const { state, rule } = decide(
        ledger,
        order,
        { ...orderer, marginMs: 0, othersKnown: true },
        ledger.now(),
      )
      return `${state} by ${rule}`
    },
  }
}

describe('two prices with one nearest double', () => {
  const number = '"fromAmount":1,"toAmount":123.45678901234568'

  it.each(['own', 'another'])('a number that means both is for the one that lives (%s)', (partition) => {
    const guard = guardOf()
    guard.note({ toValue: '123.456789012345678901' })
    guard.wait(lifeMs)
    expect(guard.judge(number, partition)).toBe('expired by exact')
    guard.note({ toValue: '123.456789012345678902' })
    expect(guard.judge(number, partition)).toBe('live by exact')
  })
})

describe('many amounts with one nearest double', () => {
  const orders = ['"fromAmount":1,"toAmount":2896.45', '"fromAmount":"1","toAmount":"2896.45"']

  it.each(orders)('of another client do not hide the quotes of the usual one (%s)', (order) => {
    const guard = guardOf()
    guard.note()
    for (let index = 100; index < 300; index += 1) {
      const amount = `1.00000000000000000000${index}`
      guard.note({ fromValue: amount, requestedAmount: amount, toValue: '2896.4', partition: 'another' })
    }
    expect(guard.judge(order)).toBe('live by exact')
    guard.wait(lifeMs)
    expect(guard.judge(order)).toBe('expired by exact')
  })
})

describe('a quote that comes again with a sooner end', () => {
  it('costs no more among many live quotes than a look at each', () => {
    const guard = guardOf()
    for (let index = 0; index < 20_000; index += 1)
      guard.note({ partition: `client ${index}`, toValue: `${2_000 + (index % 1_000)}` })
    const quote = guard.note()
    const cpuUs = (work: () => void) => {
      const before = process.cpuUsage()
      work()
      return process.cpuUsage(before).user
    }
    const notingUs = cpuUs(() => {
      for (let index = 0; index < 20_000; index += 1) guard.note({ partition: `client ${index}` })
    })
    const againUs = cpuUs(() => guard.ledger.note({ ...quote, refusedFromMs: quote.refusedFromMs - 1 }))
    expect(againUs).toBeLessThan(notingUs / 2)
  })
})
