import { type Request, Router } from 'express'
import type { Clock } from '../clock.ts'
import { answerJson, Refusal } from './answer.ts'
import { type Decimal, formatDecimal, multiplyDecimals } from './decimal.ts'
import type { FaultSettings } from './fault-settings.ts'
import { locate } from './geolocation.ts'
import { type Order, Orders } from './orders.ts'
import { type Pair, Prices } from './prices.ts'
import { QuoteBook } from './quote-book.ts'
import { bodyAsJsonObject } from './request-body.ts'
import { queryOf } from './request-query.ts'

export interface SwapOptions {
  prices: Record<string, number>
  faults: FaultSettings
  /** The sandbox's time, `clockOffsetMs` included. */
  clock: Clock
  /** Unaffected by `clockOffsetMs`. */
  elapsedClock: Clock
}

const maxOrderList = 100

/** The swap API, mounted at `/v3`. */
export function createSwapRouter({ prices: fixedPrices, faults, clock, elapsedClock }: SwapOptions): Router {
  const router = Router()
  const prices = new Prices(fixedPrices)
  const quotes = new QuoteBook()
  const orders = new Orders({ prices, quotes, clock, elapsedClock })
  const expiryFromNowMs = () => Math.floor(clock.nowMs()) + faults.current.quoteLifetimeMs

  router.get('/assets', (_request, response) => answerJson(response, 200, prices.assets))
  router.get('/geolocation', (request, response) => {
    answerJson(response, 200, locate(request, faults.current.restrictedPlace))
  })

  router.use(['/pairs', '/orders'], (request, _response, next) => {
    // Without a message: the real provider's refusal, the only one whose body was seen, has only a code.
    if (!locate(request, faults.current.restrictedPlace).allowed)
      throw new Refusal(403, 'RESTRICTED_GEOLOCATION')
    next()
  })

  router.get('/pairs', (_request, response) => answerJson(response, 200, prices.pairs.map(describePair)))
  router.get('/pairs/:pairId', (request, response) => {
    answerJson(response, 200, describePair(findPair(prices, request.params.pairId)))
  })
  router.get('/pairs/:pairId/rates', (request, response) => {
    const pair = findPair(prices, request.params.pairId)
    answerJson(response, 200, ratesOf(pair, prices.priceOf(pair, clock.nowMs()), expiryFromNowMs()))
  })
  router.get('/pairs/:pairId/quotes', (request, response) => {
    if (!request.headers['app-name'])
      throw new Refusal(400, 'MISSING_APP_NAME', 'the App-Name header is required')
    const pair = findPair(prices, request.params.pairId)
    const price = prices.priceOf(pair, clock.nowMs())
    answerJson(response, 200, quotes.give(pair, readAmountParameter(request), price, expiryFromNowMs()))
  })

  const describe = (order: Order) => describeOrder(order, orders.statusOf(order))
  router.post('/orders', (request, response) => {
    answerJson(response, 201, describe(orders.placeFixed(bodyAsJsonObject(request))))
  })
  router.post('/orders/float', (request, response) => {
    answerJson(response, 201, describe(orders.placeFloat(bodyAsJsonObject(request))))
  })
  router.get('/orders', (request, response) => {
    const query = queryOf(request)
    const found = orders.list(query.get('toAddress'), query.get('toAsset'))
    answerJson(response, 200, found.slice(0, maxOrderList).map(describe))
  })
  router.get('/orders/:id', (request, response) => {
    answerJson(response, 200, describe(orders.find(request.params.id)))
  })
  router.patch('/orders/:id', (request, response) => {
    answerJson(response, 200, describe(orders.noteTransaction(request.params.id, bodyAsJsonObject(request))))
  })
  return router
}

function findPair(prices: Prices, id: string): Pair {
  const pair = prices.pair(id)
  if (pair === undefined) throw new Refusal(404, 'PAIR_NOT_FOUND', 'there is no such pair')
  return pair
}

function readAmountParameter(request: Request): string {
  const [amount, ...more] = queryOf(request).getAll('amount')
  if (amount === undefined || more.length > 0) {
    throw new Refusal(400, 'INVALID_AMOUNT', 'the amount parameter is required, once')
  }
  return amount
}

function describePair({ id, from, to }: Pair) {
  return { id, from: from.id, to: to.id }
}

/** Three tiers of amounts at one price: the larger the amounts, the wider the bounds and the higher the miner fee. */
function ratesOf(pair: Pair, price: Decimal, expiry: number) {
  const tiers = [
    { min: '0.001', max: '1', minerFee: '0.0001' },
    { min: '1', max: '100', minerFee: '0.0002' },
    { min: '100', max: '10000', minerFee: '0.0004' },
  ]
  const from = (value: string) => ({ assetId: pair.from.id, value })
  const to = (value: string) => ({ assetId: pair.to.id, value })
  return tiers.map(({ min, max, minerFee }) => ({
    pairId: pair.id,
    amount: to(formatDecimal(multiplyDecimals({ digits: 1n, scale: 0 }, price, pair.to.decimals))),
    min: from(min),
    max: from(max),
    minerFee: to(minerFee),
    expiry,
  }))
}

function describeOrder(order: Order, status: string) {
  const { id, pairId, fromAmount, toAmount, addresses, payInAddress, quoteId, transactionId, createdAtMs } =
    order
  return {
    id,
    status,
    pairId,
    fromAmount,
    toAmount,
    ...addresses,
    payInAddress,
    quoteId,
    transactionId,
    createdAt: createdAtMs,
  }
}
