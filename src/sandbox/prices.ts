import { decimalsOf, isZero, parseDecimal } from '../http/decimal.ts'
import { SandboxError } from './types.ts'

export interface Asset {
  id: string
  symbol: string
  name: string
  network: string
  decimals: number
}

export interface Pair {
  id: string
  from: Asset
  to: Asset
}

const tenMinutesMs = 600_000
const listedDollars = {
  BTC: 91_230.5,
  ETH: 2896.45,
  LTC: 84.12,
  SOL: 137.38,
  USDC: 1,
  USDT: 0.9997,
}
const listedAssets = [
  asset('BTC', 'Bitcoin', 'bitcoin'),
  asset('ETH', 'Ether', 'ethereum'),
  asset('LTC', 'Litecoin', 'litecoin'),
  asset('SOL', 'Solana', 'solana'),
  { ...asset('USDC', 'USD Coin', 'ethereum'), decimals: 6 },
  { ...asset('USDT', 'Tether', 'ethereum'), decimals: 6 },
]

function asset(id: string, name = id, network = 'sandbox'): Asset {
  return { id, symbol: id, name, network, decimals: 8 }
}

/** Assets and pairs by id, and a pair's price at a time. */
export class Prices {
  readonly assets: ReadonlyMap<string, Asset>
  readonly pairs: ReadonlyMap<string, Pair>
  readonly #fixed = new Map<string, string>()

  constructor(fixedPrices: Record<string, number>) {
    for (const [id, price] of Object.entries(fixedPrices)) {
      const isPair = /^[A-Za-z0-9.-]+_[A-Za-z0-9.-]+$/.test(id)
      if (!isPair)
        throw new SandboxError(`prices: ${id} is not a pair id such as ETH_USDC`)
      this.#fixed.set(id, readPrice(id, price))
    }
    const assets = new Map(listedAssets.map((one) => [one.id, one]))
    const assetOf = (id: string): Asset => {
      const found = assets.get(id) ?? asset(id)
      assets.set(id, found)
      return found
    }
    const ids = Object.keys(listedDollars)
    const crossed = ids.flatMap((from) =>
      ids.filter((to) => to !== from).map((to) => `${from}_${to}`),
    )
    const pairs = [...new Set([...crossed, ...this.#fixed.keys()])].map(
      (id): [string, Pair] => {
        const [from = '', to = ''] = id.split('_')
        return [id, { id, from: assetOf(from), to: assetOf(to) }]
      },
    )
    this.pairs = new Map(pairs)
    this.assets = assets
  }

  /** How many "to" assets one "from" asset buys, as a canonical decimal. */
  priceOf(pair: Pair, nowMs: number): string {
    const fixed = this.#fixed.get(pair.id)
    if (fixed !== undefined) return fixed
    const price = dollarsOf(pair.from.id, nowMs) / dollarsOf(pair.to.id, nowMs)
    return readPrice(pair.id, Number(price.toPrecision(10)))
  }
}

/**
 * Prices move in a slow wave (0.2 % in ten minutes, a hundredth of it for stable assets): demos look alive, tests are
 * repeatable.
 */
function dollarsOf(assetId: string, nowMs: number): number {
  const index = Object.keys(listedDollars).indexOf(assetId)
  const dollars = Object.values(listedDollars)[index] ?? Number.NaN
  const swing = dollars < 2 ? 0.000_02 : 0.002
  return dollars * (1 + swing * Math.sin((2 * Math.PI * nowMs) / tenMinutesMs + index))
}

function readPrice(pairId: string, price: number): string {
  const decimal = positiveDecimal(String(price))
  if (decimal === undefined)
    throw new SandboxError(`prices: ${pairId} must be a positive number, not ${price}`)
  return decimal
}

/** The canonical form of an amount or a price; undefined for other text and for 0. */
export function positiveDecimal(text: string): string | undefined {
  const decimal = parseDecimal(text)
  return decimal === undefined || isZero(decimal) ? undefined : decimal
}

/** The product, cut off after `maxDecimals`: rounding up would promise money. */
export function productOf(one: string, other: string, maxDecimals: number): string {
  const scale = decimalsOf(one) + decimalsOf(other)
  const kept = Math.min(scale, maxDecimals)
  const product = BigInt(one.replace('.', '')) * BigInt(other.replace('.', ''))
  const digits = String(product / 10n ** BigInt(scale - kept)).padStart(kept + 1, '0')
  const fraction = digits.slice(digits.length - kept).replace(/(?<!0)0+$/, '')
  const whole = digits.slice(0, digits.length - kept)
  return fraction === '' ? whole : `${whole}.${fraction}`
}
