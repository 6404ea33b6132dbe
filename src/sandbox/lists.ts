import type { ServerResponse } from 'node:http'
import { answerJson, answerText, Refusal } from './answer.ts'
import type { Asset, Pair } from './prices.ts'

const maxLimit = 1000

/** `?from=&to=` */
export function choosePairs(pairs: readonly Pair[], query: URLSearchParams) {
  const [from, to] = [query.get('from'), query.get('to')]
  return pairs
    .filter((pair) => (from === null || pair.from.id === from) && (to === null || pair.to.id === to))
    .map(describePair)
}

export function describePair({ id, from, to }: Pair) {
  return { id, from: from.id, to: to.id }
}

/** `?networks=ethereum,solana&query=coin&limit=10&page=2`, the first page being 1. Without a limit all of them. */
export function chooseAssets(assets: readonly Asset[], query: URLSearchParams): Asset[] {
  const networks = query.get('networks')?.split(',')
  const text = query.get('query')?.toLowerCase() ?? ''
  const limit = wholeNumber(query, 'limit', maxLimit) ?? maxLimit
  const page = wholeNumber(query, 'page', Number.MAX_SAFE_INTEGER) ?? 1
  return assets
    .filter(({ network }) => networks === undefined || networks.includes(network))
    .filter(({ id, name }) => id.toLowerCase().includes(text) || name.toLowerCase().includes(text))
    .slice((page - 1) * limit, page * limit)
}

/** `?format=csv`: the ids in one line, as the provider's pages show it. */
export function answerList(response: ServerResponse, query: URLSearchParams, list: { id: string }[]): void {
  const format = query.get('format') ?? 'json'
  if (format === 'json') answerJson(response, 200, list)
  else if (format === 'csv') {
    answerText(response, { status: 200, type: 'text/csv', text: list.map(({ id }) => id).join(',') })
  } else throw new Refusal(400, 'BAD_REQUEST', 'format is json or csv')
}

function wholeNumber(query: URLSearchParams, name: string, max: number): number | undefined {
  const text = query.get(name)
  if (text === null) return undefined
  const value = /^\d{1,15}$/.test(text) ? Number(text) : 0
  if (value < 1 || value > max) {
    throw new Refusal(400, 'BAD_REQUEST', `${name} is a whole number from 1 to ${max}`)
  }
  return value
}
