import { isZero, parseDecimal } from '../http/decimal.ts'
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
const listedAssets: (Omit<Asset, 'symbol'> & { dollars: number })[] = [
  { id: 'BTC', name: 'Bitcoin', network: 'bitcoin', decimals: 8, dollars: 91_230.5 },
  { id: 'ETH', name: 'Ether', network: 'ethereum', decimals: 8, dollars: 2896.45 },
  { id: 'LTC', name: 'Litecoin', network: 'litecoin', decimals: 8, dollars: 84.12 },
  { id: 'SOL', name: 'Solana', network: 'solana', decimals: 8, dollars: 137.38 },
  { id: 'USDC', name: 'USD Coin', network: 'ethereum', decimals: 6, dollars: 1 },
  { id: 'USDT', name: 'Tether', network: 'ethereum', decimals: 6, dollars: 0.9997 },
]

/** The assets and the pairs, each by its id, and the price of a pair at a given time. */
export class Prices {
  readonly assets: ReadonlyMap<string, Asset>
  readonly pairs: ReadonlyMap<string, Pair>
  readonly #fixed: Map<string, string>

  constructor(fixedPrices: Record<string, number>) {
    this.#fixed = new Map(Object.entries(fixedPrices).map(readFixedPrice))
    const assets = new Map<string, Asset>(
      listedAssets.map(({ dollars: _price, id, ...facts }) => [id, { id, symbol: id, ...facts }]),
    )
    const assetOf = (id: string): Asset => {
      const asset = assets.get(id) ?? { id, symbol: id, name: id, network: 'sandbox', decimals: 8 }
      assets.set(id, asset)
      return asset
    }
    const pairIds = new Set([...crossPairIds(), ...this.#fixed.keys()])
    const pairs = [...pairIds].map((id): [string, Pair] => {
      const [from = '', to = ''] = id.split('_')
      return [id, { id, from: assetOf(from), to: assetOf(to) }]
    })
    this.pairs = new Map(pairs)
    this.assets = assets
  }

  /** How many of the pair's "to" asset one "from" asset buys, as a canonical decimal. */
  priceOf(pair: Pair, nowMs: number): string {
    const fixed = this.#fixed.get(pair.id)
    if (fixed !== undefined) return fixed
    const price = dollarsOf(pair.from.id, nowMs) / dollarsOf(pair.to.id, nowMs)
    return readPrice(pair.id, Number(price.toPrecision(10)))
  }
}

function crossPairIds(): string[] {
  const ids = listedAssets.map(({ id }) => id)
  return ids.flatMap((from) => ids.filter((to) => to !== from).map((to) => `${from}_${to}`))
}

/** A slow wave (0.2 % in ten minutes, a hundredth of it for stable assets): demos look alive, tests are repeatable. */
function dollarsOf(assetId: string, nowMs: number): number {
  const index = listedAssets.findIndex(({ id }) => id === assetId)
  const asset = listedAssets[index]
  if (asset === undefined) throw new RangeError(`${assetId} has no price`)
  const swing = asset.dollars < 2 ? 0.000_02 : 0.002
  return asset.dollars * (1 + swing * Math.sin((2 * Math.PI * nowMs) / tenMinutesMs + index))
}

function readFixedPrice([pairId, price]: [string, number]): [string, string] {
  if (!/^[A-Za-z0-9.-]+_[A-Za-z0-9.-]+$/.test(pairId)) {
    throw new SandboxError(`prices: ${pairId} is not a pair id such as ETH_USDC`)
  }
  return [pairId, readPrice(pairId, price)]
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
