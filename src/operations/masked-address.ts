import { isIPv4, isIPv6 } from 'node:net'

/** Enough to tell networks apart, not people: without the last octet, or without the last 64 bits. */
export function maskedAddress(address: string | undefined): string {
  if (address === undefined) return 'unknown'
  if (isIPv4(address)) return address.replace(/\d+$/, 'x')
  if (!isIPv6(address)) return 'unknown'
  const [before = '', after] = address.split('::')
  const left = before === '' ? [] : before.split(':')
  const right = after === undefined || after === '' ? [] : after.split(':')
  const zeros = after === undefined ? [] : Array<string>(8 - left.length - right.length).fill('0')
  const network = [...left, ...zeros, ...right].slice(0, 4)
  return `${network.join(':')}:x`
}
