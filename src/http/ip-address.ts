import { isIP, isIPv4, isIPv6 } from 'node:net'

// RFC 6874 section 2: unreserved characters, or percent-encoded.
const zone = /^[\w.~%-]+$/

/** The address without its zone, spelled as received; undefined for other text. */
export function plainAddress(text: string): string | undefined {
  const percent = text.indexOf('%')
  if (percent === -1) return isIP(text) === 0 ? undefined : text
  // net.isIP refuses zones of real interfaces, such as `br_lan`, so it checks only the address.
  const address = text.slice(0, percent)
  return isIPv6(address) && zone.test(text.slice(percent + 1)) ? address : undefined
}

/** The one element of Forwarded. `address` is as `normalizeAddress` writes it; any other text becomes `unknown`. */
export function formatForwarded(address: string | undefined): string {
  if (address === undefined) return 'for=unknown'
  if (isIPv4(address)) return `for=${address}`
  const plain = plainAddress(address)
  // RFC 7239 section 6: an IPv6 address is quoted because of its brackets. Unquoted, the swap API ignores it and judges
  // the gateway's own address.
  return plain === undefined ? 'for=unknown' : `for="[${plain}]"`
}

/** The canonical spelling: dotted IPv4, or IPv6 by RFC 5952, without a zone. An IPv4-mapped address becomes IPv4. */
export function normalizeAddress(text: string): string | undefined {
  // net.isIPv4 accepts only canonical addresses: no leading zeros.
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

/** A range of one family; IPv4-mapped blocks are IPv4. */
export interface AddressBlock {
  /** Groups of any address in the block: two of 16 bits for IPv4, eight for IPv6. */
  readonly groups: readonly number[]
  /** How many first bits the block's addresses share. */
  readonly prefix: number
}

/** Reads an address or a CIDR; host bits are ignored. `problem` continues a sentence that begins with the text. */
export function parseAddressBlock(text: string): AddressBlock | { problem: string } {
  const slash = text.indexOf('/')
  const written = slash === -1 ? text : text.slice(0, slash)
  const address = normalizeAddress(written)
  // `normalizeAddress` drops a zone: the entry would trust the address on every interface.
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
  // A shorter prefix covers every IPv4 and some IPv6 addresses, surely by mistake.
  if (prefix < mappedBits) {
    return {
      problem: `is an IPv4-mapped address and needs a prefix of at least ${mappedBits}`,
    }
  }
  return { groups: groupsOf(address), prefix: prefix - mappedBits }
}

/** Express's names, which people know, in place of addresses in TRUST_PROXY. */
export const namedBlocks: ReadonlyMap<string, readonly string[]> = new Map([
  ['loopback', ['127.0.0.0/8', '::1']],
  ['linklocal', ['169.254.0.0/16', 'fe80::/10']],
  ['uniquelocal', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']],
])

/** The address must be canonical. `::/0` holds IPv6 addresses only. */
export function blocksHold(blocks: readonly AddressBlock[], address: string): boolean {
  if (blocks.length === 0) return false
  // net.BlockList takes several times as long, and confuses IPv4 addresses with mapped ones.
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

/** An address without its last octet or 64 bits: it tells networks apart, but not people. */
export function maskedAddress(text: string | undefined): string {
  const address = text && normalizeAddress(text)
  if (!address) return 'unknown'
  if (isIPv4(address)) return address.replace(/\d{1,3}$/, 'x')
  const network = groupsOf(address).slice(0, 4)
  return `${network.map((group) => group.toString(16)).join(':')}:x`
}
