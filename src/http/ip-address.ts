import { isIPv4 } from 'node:net'
import { plainAddress } from './forwarded.ts'

/**
 * The one spelling of an IP address: dotted IPv4, or IPv6 by RFC 5952, without a zone; an IPv4-mapped IPv6
 * address is IPv4. Undefined for what is no address.
 */
export function normalizeAddress(text: string): string | undefined {
  // net.isIPv4 takes four plain decimals without leading zeros: what it takes is canonical already.
  if (isIPv4(text)) return text
  const address = plainAddress(text)
  if (address === undefined) return undefined
  // What a dual-stack listener says of every IPv4 peer: worth not taking apart.
  if (address.startsWith('::ffff:')) {
    const mapped = address.slice('::ffff:'.length)
    if (isIPv4(mapped)) return mapped
  }
  const groups = ipv6Groups(address)
  return isMapped(groups) ? mappedText(groups) : ipv6Text(groups)
}

/** A range of addresses of one family; blocks written in IPv4-mapped form are IPv4. */
export interface AddressBlock {
  /** Of any address in it: two groups of 16 bits for IPv4, eight for IPv6. */
  readonly groups: readonly number[]
  /** How many bits count, from the first. */
  readonly prefix: number
}

/** Reads an address or a CIDR; host bits are masked. `problem` says what is wrong with it. */
export function parseAddressBlock(text: string): AddressBlock | { problem: string } {
  const slash = text.indexOf('/')
  const written = slash === -1 ? text : text.slice(0, slash)
  const address = normalizeAddress(written)
  // A zone would be cut here, and the entry would trust that address on every interface.
  if (address === undefined || written.includes('%')) {
    return { problem: `"${written}" is not an IP address` }
  }
  const longest = written.includes(':') ? 128 : 32
  const prefix = slash === -1 ? longest : readPrefix(text.slice(slash + 1))
  if (prefix === undefined || prefix > longest) {
    return { problem: `the prefix length must be a number from 0 to ${longest}` }
  }
  const mappedBits = longest === 128 && isIPv4(address) ? 96 : 0
  // Shorter, and it would hold every IPv4 address and IPv6 addresses beside them: nobody means that.
  if (prefix < mappedBits) {
    return { problem: `an IPv4-mapped block needs a prefix length of at least ${mappedBits}` }
  }
  return { groups: addressGroups(address), prefix: prefix - mappedBits }
}

/** Whether one of the blocks holds the address, which is canonical. `::/0` holds IPv6 addresses only. */
export function blocksHold(blocks: readonly AddressBlock[], address: string): boolean {
  if (blocks.length === 0) return false
  const groups = addressGroups(address)
  return blocks.some((block) => groups.length === block.groups.length && sharePrefix(groups, block))
}

function sharePrefix(groups: readonly number[], block: AddressBlock): boolean {
  let bits = block.prefix
  for (const [index, group] of block.groups.entries()) {
    if (bits <= 0) return true
    const ignored = Math.max(0, 16 - bits)
    if (group >> ignored !== (groups[index] ?? 0) >> ignored) return false
    bits -= 16
  }
  return true
}

function readPrefix(text: string): number | undefined {
  return /^(?:0|[1-9]\d{0,2})$/.test(text) ? Number(text) : undefined
}

function addressGroups(address: string): number[] {
  return address.includes(':') ? ipv6Groups(address) : ipv4Groups(address)
}

function ipv4Groups(address: string): number[] {
  const [first, second, third, fourth] = address.split('.').map(Number)
  return [((first ?? 0) << 8) | (second ?? 0), ((third ?? 0) << 8) | (fourth ?? 0)]
}

/** The eight groups of an IPv6 address that `net` has found valid. */
function ipv6Groups(address: string): number[] {
  const [head = '', tail] = address.split('::')
  const groups = readGroups(head)
  if (tail === undefined) return groups
  const after = readGroups(tail)
  while (groups.length < 8 - after.length) groups.push(0)
  return groups.concat(after)
}

function readGroups(text: string): number[] {
  const groups: number[] = []
  if (text === '') return groups
  for (const part of text.split(':')) {
    if (part.includes('.')) groups.push(...ipv4Groups(part))
    else groups.push(Number.parseInt(part, 16))
  }
  return groups
}

/** RFC 4291 section 2.5.5.2. The deprecated IPv4-compatible `::192.0.2.1` is another address. */
function isMapped(groups: readonly number[]): boolean {
  return groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0)
}

function mappedText(groups: readonly number[]): string {
  const [high = 0, low = 0] = groups.slice(6)
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.')
}

/** RFC 5952 section 4.2: the longest run of zero groups is shortened, the first of equals, never a single one. */
function ipv6Text(groups: readonly number[]): string {
  let longest = 1
  let end = 0
  let run = 0
  for (const [index, group] of groups.entries()) {
    run = group === 0 ? run + 1 : 0
    if (run > longest) {
      longest = run
      end = index + 1
    }
  }
  const digits = groups.map((group) => group.toString(16))
  if (longest === 1) return digits.join(':')
  return `${digits.slice(0, end - longest).join(':')}::${digits.slice(end).join(':')}`
}

/** Enough of an address to tell networks apart, not people: without the last octet, or without the last 64 bits. */
export function maskedAddress(text: string | undefined): string {
  const address = text && normalizeAddress(text)
  if (!address) return 'unknown'
  if (isIPv4(address)) return address.replace(/\d+$/, 'x')
  const network = ipv6Groups(address).slice(0, 4)
  return `${network.map((group) => group.toString(16)).join(':')}:x`
}

/** One spelling for each host: an address as `normalizeAddress` writes it; a name in lower case, without a final dot. */
export function canonicalHost(host: string): string {
  const bare = host.toLowerCase().replace(/^\[|\]$/g, '')
  return normalizeAddress(bare) ?? bare.replace(/%.*$/, '').replace(/\.$/, '')
}

export function isWildcard(host: string): boolean {
  return ['0.0.0.0', '::'].includes(canonicalHost(host))
}

export function isLoopback(host: string): boolean {
  const name = canonicalHost(host)
  if (isIPv4(name)) return name.startsWith('127.')
  return name === '::1' || name === 'localhost' || name.endsWith('.localhost')
}
