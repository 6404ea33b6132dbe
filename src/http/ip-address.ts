import { isIP, isIPv4, isIPv6 } from 'node:net'

// RFC 6874 section 2: unreserved characters, or percent-encoded.
const zone = /^[\w.~%-]+$/

/** An IP address without its zone, spelled as received; undefined for anything else. */
export function plainAddress(text: string): string | undefined {
  const percent = text.indexOf('%')
  if (percent === -1) return isIP(text) === 0 ? undefined : text
  // net.isIP refuses zones that name real interfaces, such as `br_lan`, so it checks only the address.
  const address = text.slice(0, percent)
  return isIPv6(address) && zone.test(text.slice(percent + 1)) ? address : undefined
}

/**
 * The one element of Forwarded that the upstream receives. `address` is the client's, as `normalizeAddress` writes it.
 * Text that is not an address becomes `unknown`, so that no other text can reach the header.
 */
export function formatForwarded(address: string | undefined): string {
  if (address === undefined) return 'for=unknown'
  if (isIPv4(address)) return `for=${address}`
  const plain = plainAddress(address)
  // RFC 7239 section 6: brackets are not token characters, so an IPv6 address is always quoted. The swap
  // upstream ignores it otherwise and judges the gateway's own address instead.
  return plain === undefined ? 'for=unknown' : `for="[${plain}]"`
}

/**
 * The canonical spelling of an IP address: dotted IPv4, or IPv6 by RFC 5952, without a zone. An IPv4-mapped IPv6
 * address becomes IPv4. Undefined for text that is not an address.
 */
export function normalizeAddress(text: string): string | undefined {
  // net.isIPv4 accepts only four decimals without leading zeros, so what it accepts is canonical.
  if (isIPv4(text)) return text
  const address = plainAddress(text)
  if (address === undefined) return undefined
  // URL spells IPv6 addresses as RFC 5952 does.
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1)
  // RFC 4291 section 2.5.5.2. The deprecated IPv4-compatible `::192.0.2.1` is not mapped.
  const mapped = /^::ffff:([\da-f]+):([\da-f]+)$/.exec(canonical)
  if (mapped === null) return canonical
  const [high, low] = [
    Number.parseInt(mapped[1] ?? '', 16),
    Number.parseInt(mapped[2] ?? '', 16),
  ]
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.')
}

/** A range of addresses of one family; blocks written in IPv4-mapped form are IPv4. */
export interface AddressBlock {
  /** The groups of any address in the block: two of 16 bits for IPv4, eight for IPv6. */
  readonly groups: readonly number[]
  /** How many bits all addresses of the block share, from the first. */
  readonly prefix: number
}

/** Reads an address or a CIDR block; host bits are ignored. `problem` continues a sentence that begins with the text. */
export function parseAddressBlock(text: string): AddressBlock | { problem: string } {
  const slash = text.indexOf('/')
  const written = slash === -1 ? text : text.slice(0, slash)
  const address = normalizeAddress(written)
  // `normalizeAddress` drops a zone, and the entry would then trust the address on every interface.
  if (address === undefined || written.includes('%')) {
    return { problem: 'is not an IP address or a CIDR' }
  }
  const maxPrefix = written.includes(':') ? 128 : 32
  const stated = slash === -1 ? String(maxPrefix) : text.slice(slash + 1)
  const prefix = Number(stated)
  if (!/^(?:0|[1-9]\d{0,2})$/.test(stated) || prefix > maxPrefix) {
    return { problem: `needs a prefix from 0 to ${maxPrefix}` }
  }
  const mappedBits = maxPrefix === 128 && isIPv4(address) ? 96 : 0
  // A shorter prefix would cover every IPv4 address and some IPv6 addresses, which is surely a mistake.
  if (prefix < mappedBits) {
    return {
      problem: `is an IPv4-mapped address and needs a prefix of at least ${mappedBits}`,
    }
  }
  return { groups: groupsOf(address), prefix: prefix - mappedBits }
}

/**
 * The names that an entry of TRUST_PROXY may have instead of an address: Express's own, since people know them from
 * there.
 */
export const namedBlocks: ReadonlyMap<string, readonly string[]> = new Map([
  ['loopback', ['127.0.0.0/8', '::1']],
  ['linklocal', ['169.254.0.0/16', 'fe80::/10']],
  ['uniquelocal', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']],
])

/** Whether one of the blocks holds the address, which must be canonical. `::/0` holds IPv6 addresses only. */
export function blocksHold(blocks: readonly AddressBlock[], address: string): boolean {
  if (blocks.length === 0) return false
  // net.BlockList would take several times as long, and would mistake an IPv4 address for its mapped IPv6 address.
  const groups = groupsOf(address)
  return blocks.some(
    (block) => groups.length === block.groups.length && sharePrefix(groups, block),
  )
}

function sharePrefix(groups: readonly number[], block: AddressBlock): boolean {
  return block.groups.every((group, index) => {
    const ignored = Math.min(16, Math.max(0, 16 * (index + 1) - block.prefix))
    return group >> ignored === (groups[index] ?? 0) >> ignored
  })
}

/** The groups of 16 bits of a canonical address. */
function groupsOf(address: string): number[] {
  if (isIPv4(address)) {
    const [first = 0, second = 0, third = 0, fourth = 0] = address.split('.').map(Number)
    return [(first << 8) | second, (third << 8) | fourth]
  }
  const [before = [], after = []] = address
    .split('::')
    .map((part) =>
      part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16)),
    )
  return [
    ...before,
    ...new Array<number>(8 - before.length - after.length).fill(0),
    ...after,
  ]
}

/** The address without its last octet or its last 64 bits: enough to tell networks apart, but not people. */
export function maskedAddress(text: string | undefined): string {
  const address = text && normalizeAddress(text)
  if (!address) return 'unknown'
  if (isIPv4(address)) return address.replace(/\d{1,3}$/, 'x')
  const network = groupsOf(address).slice(0, 4)
  return `${network.map((group) => group.toString(16)).join(':')}:x`
}
