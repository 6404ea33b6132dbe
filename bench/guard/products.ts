import { createRandom, drawBetween } from '../simulation/random.ts'
import { lifeMs, openMarket, type Quote, runInTurn, type Step, startMs, walk } from './market.ts'
import type { Outcome } from './tally.ts'

const hours = 3
const users = 12
const backend = '203.0.113.1'

interface Product {
  /** From where a user asks and orders; `visit` is another one each time. */
  asksFrom(user: number): string | undefined
  ordersFrom(user: number, visit: number): string | undefined
  /** It fetches a new quote when the last one is over. A late order still states the one that was shown first. */
  asksAgain?: true
}

const ofUser = (user: number) => `192.0.2.${user}`
const products: Record<string, Product> = {
  'wallet, one address': { asksFrom: ofUser, ordersFrom: ofUser },
  'widget that asks again every 30 s': { asksFrom: ofUser, ordersFrom: ofUser, asksAgain: true },
  'phone that changes its network': { asksFrom: ofUser, ordersFrom: (_user, visit) => `198.51.100.${visit}` },
  'browser asks, backend orders': { asksFrom: ofUser, ordersFrom: () => backend },
  'backend, one address for all users': { asksFrom: () => backend, ordersFrom: () => backend },
  'clients without an address': { asksFrom: () => undefined, ordersFrom: () => undefined },
}

const ways: Record<string, (price: string) => string | undefined> = {
  'all digits': (price) => price,
  'four digits': (price) => Number(price).toPrecision(4),
  'two decimals': (price) => Number(price).toFixed(2),
  '0.5 % off': (price) => String(Number(price) * 0.995),
  none: () => undefined,
}

/** Hours in which users visit each product, which has a pair of its own, at random and once a minute. Each visit orders in each way, half of them late. */
export async function playProducts(aDay: number): Promise<Outcome[]> {
  const random = createRandom(6)
  const middle = walk(random, aDay)
  const market = await openMarket({ price: (nowMs) => middle(nowMs).toFixed(6) })
  const outcomes: Outcome[] = []
  const steps: Step[] = []

  function planVisit(visit: number, [product, { asksFrom, ordersFrom, asksAgain }]: [string, Product]): void {
    const user = drawBetween(random, [1, users])
    const asker = { address: asksFrom(user) }
    const orderer = { address: ordersFrom(user, visit) }
    const pair = `ETH_${product.replace(/\W+/g, '')}`
    const atMs = startMs + drawBetween(random, [0, hours * 3_600_000])
    const isLate = visit % 2 === 1
    const orderedMs = atMs + drawBetween(random, isLate ? [lifeMs + 1_000, 3 * lifeMs] : [1_000, lifeMs - 1])
    const ask = () => market.ask(asker, pair)
    let quote: Quote
    steps.push({
      atMs,
      async run() {
        quote = await ask()
      },
    })
    for (let againMs = atMs + lifeMs; asksAgain && againMs < orderedMs; againMs += lifeMs) {
      steps.push({ atMs: againMs, run: ask })
    }
    steps.push({
      atMs: orderedMs,
      async run() {
        const orders = Object.entries(ways).map(async ([stated, state]) => {
          const names = { product, stated }
          return { names, ...(await market.order(orderer, quote, state(quote.price))) }
        })
        outcomes.push(...(await Promise.all(orders)))
      },
    })
  }

  for (let visit = 0; visit < hours * 60; visit += 1) {
    for (const product of Object.entries(products)) planVisit(visit, product)
  }
  await runInTurn(market, steps)
  await market.close()
  return Object.keys(products).flatMap((name) => outcomes.filter(({ names }) => names.product === name))
}
