import type { Ordered, Spelled } from './guard-model.ts'

/** An order as its client writes it. */
export function bodyOf({ quoteId, bareId, pair: pairId, from: fromAmount, to }: Ordered): Buffer {
  const spelled = ({ text, isNumber }: Spelled) => (isNumber ? text : `"${text}"`)
  const members = [`"pairId":"${pairId}"`, `"fromAmount":${spelled(fromAmount)}`]
  if (to !== undefined) members.push(`"toAmount":${to === 'odd' ? '"about 7"' : spelled(to)}`)
  if (quoteId !== undefined) members.push(`"quoteId":"${quoteId}"`)
  if (bareId !== undefined) members.push(`"id":"${bareId}"`)
  return Buffer.from(`{${members.join(',')}}`)
}
