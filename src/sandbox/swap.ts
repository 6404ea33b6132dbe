import { type Request, Router } from 'express'
import { addAnswers, Refusal, RefusedOrder } from './answer.ts'
import type { Sources } from './faults.ts'
import { locate } from './geolocation.ts'
import { Orders } from './orders.ts'
import { type Asset, type Pair, Prices, productOf } from './prices.ts'
import { type Amount, type Quote, QuoteBook } from './quote-book.ts'
import { bodyAsJsonObject, queryOf } from './requests.ts'

const maxOrderList = 100
const maxAssetList = 1000

export function createSwapRouter(
  fixedPrices: Record<string, number>,
  sources: Sources,
): Router {
  const { faults, clock } = sources
  const router = Router()
  const prices = new Prices(fixedPrices)
  const quotes = new QuoteBook()
  const orders = new Orders({ ...sources, prices, quotes })
  const expiryFromNowMs = () => Math.floor(clock.nowMs()) + faults.current.quoteLifetimeMs
  const isAllowed = (request: Request) =>
    locate(request, faults.current.restrictedPlace).allowed

  addAnswers(router, 200, {
    'get /assets': (_id, request) =>
      listed(request, chooseAssets([...prices.assets.values()], queryOf(request))),
    'get /assets/:id': (id) => {
      const asset = prices.assets.get(id)
      if (asset === undefined) throw new Refusal(404, 'NOT_FOUND', 'Asset not found')
      return asset
    },
    'get /geolocation': (_id, request) => locate(request, faults.current.restrictedPlace),
    // GET /pairs refuses no place: a user in a restricted place gets an empty list.
    'get /pairs': (_id, request) => {
      const pairs = isAllowed(request) ? [...prices.pairs.values()] : []
      return listed(request, choosePairs(pairs, queryOf(request)))
    },
  })

  router.use(['/pairs', '/orders'], (request, _response, next) => {
    // The real provider's refusal has only a code.
    if (!isAllowed(request)) throw new Refusal(403, 'RESTRICTED_GEOLOCATION')
    next()
  })

  addAnswers(router, 200, {
    'get /pairs/:pairId': (id) => describePair(findPair(prices, id)),
    'get /pairs/:pairId/rates': (id) => {
      const pair = findPair(prices, id)
      return ratesOf(pair, prices.priceOf(pair, clock.nowMs()), expiryFromNowMs())
    },
    'get /pairs/:pairId/quotes': (id, request) => {
      if (!request.headers['app-name'])
        throw new Refusal(400, 'MISSING_APP_NAME', 'the App-Name header is required')
      const pair = findPair(prices, id)
      const price = prices.priceOf(pair, clock.nowMs())
      const quote = quotes.give(
        pair,
        readAmountParameter(request),
        price,
        expiryFromNowMs(),
      )
      return faults.current.quoteAmounts === 'numbers' ? withNumbers(quote) : quote
    },
    'get /orders': (_id, request) => orders.list(queryOf(request), maxOrderList),
    'get /orders/:id': (id) => orders.one(id),
    'patch /orders/:id': (id, request) =>
      orders.noteTransaction(id, bodyAsJsonObject(request)),
    'post /trades': notImitated,
    'post /provider-orders': notImitated,
    'post /ledger/swap': notImitated,
  })
  addAnswers(router, 201, {
    'post /orders': (_id, request) =>
      created(() => orders.placeFixed(bodyAsJsonObject(request))),
    'post /orders/float': (_id, request) =>
      created(() => orders.placeFloat(bodyAsJsonObject(request))),
  })
  return router
}

/** The provider answers every bad order alike. */
function created(place: () => object): object {
  try {
    return place()
  } catch (error) {
    const isReason = error instanceof Refusal && error.status === 400
    throw isReason && !(error instanceof RefusedOrder)
      ? new RefusedOrder(error.message)
      : error
  }
}

function notImitated(): never {
  const message =
    'the sandbox does not imitate this path, because its requests and answers are not documented'
  throw new Refusal(501, 'SANDBOX_NOT_IMPLEMENTED', message)
}

function findPair(prices: Prices, id: string): Pair {
  const pair = prices.pairs.get(id)
  if (pair === undefined) throw new Refusal(404, 'PAIR_NOT_FOUND', 'the pair is unknown')
  return pair
}

function readAmountParameter(request: Request): string {
  const [amount, ...more] = queryOf(request).getAll('amount')
  if (amount === undefined || more.length > 0) {
    throw new Refusal(400, 'INVALID_AMOUNT', 'the amount parameter is required, once')
  }
  return amount
}

/** Amounts as numbers, as one published program that calls the provider has them. */
function withNumbers(quote: Quote) {
  const numbered = ({ assetId, value }: Amount) => ({ assetId, value: Number(value) })
  return {
    ...quote,
    fromAmount: numbered(quote.fromAmount),
    toAmount: numbered(quote.toAmount),
  }
}

/** Three tiers at one price: larger amounts have wider bounds and a higher miner fee. */
function ratesOf(pair: Pair, price: string, expiry: number) {
  const tiers = [
    { min: 0.001, max: 1, minerFee: 0.0001 },
    { min: 1, max: 100, minerFee: 0.0002 },
    { min: 100, max: 10_000, minerFee: 0.0004 },
  ]
  const from = (value: number) => ({ assetId: pair.from.id, value })
  const to = (value: number) => ({ assetId: pair.to.id, value })
  const paidForOne = productOf('1', price, pair.to.decimals)
  return tiers.map(({ min, max, minerFee }) => ({
    pairId: pair.id,
    // Numbers, as the provider sends them here.
    amount: to(Number(paidForOne)),
    min: from(min),
    max: from(max),
    minerFee: to(minerFee),
    expiry,
  }))
}

/** `?from=&to=` */
function choosePairs(pairs: readonly Pair[], query: URLSearchParams) {
  const [from, to] = [query.get('from'), query.get('to')]
  return pairs
    .filter(
      (pair) =>
        (from === null || pair.from.id === from) && (to === null || pair.to.id === to),
    )
    .map(describePair)
}

function describePair({ id, from, to }: Pair) {
  return { id, from: from.id, to: to.id }
}

/** `?networks=ethereum,solana&query=coin&limit=10&page=2`; pages begin at 1. Default: all assets. */
function chooseAssets(assets: readonly Asset[], query: URLSearchParams): Asset[] {
  const networks = query.get('networks')?.split(',')
  const text = query.get('query')?.toLowerCase() ?? ''
  const limit = wholeNumber(query, 'limit', maxAssetList) ?? maxAssetList
  const page = wholeNumber(query, 'page', Number.MAX_SAFE_INTEGER) ?? 1
  return assets
    .filter(({ network }) => networks === undefined || networks.includes(network))
    .filter(
      ({ id, name }) =>
        id.toLowerCase().includes(text) || name.toLowerCase().includes(text),
    )
    .slice((page - 1) * limit, page * limit)
}

/** `?format=csv`: the ids in one line, as in the provider's pages. */
function listed(request: Request, list: { id: string }[]): object | string {
  const format = queryOf(request).get('format') ?? 'json'
  if (format === 'json') return list
  if (format === 'csv') return list.map(({ id }) => id).join(',')
  throw new Refusal(400, 'BAD_REQUEST', 'format is json or csv')
}

function wholeNumber(
  query: URLSearchParams,
  name: string,
  max: number,
): number | undefined {
  const text = query.get(name)
  if (text === null) return undefined
  const value = /^\d{1,15}$/.test(text) ? Number(text) : 0
  if (value < 1 || value > max) {
    throw new Refusal(400, 'BAD_REQUEST', `${name} is a whole number from 1 to ${max}`)
  }
  return value
}
