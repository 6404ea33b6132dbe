import { type AddressBlock, blocksHold, parseAddressBlock } from '../http/ip-address.ts'

/** The names that an entry may have instead of an address: Express's own, since people know them from there. */
const namedBlocks: ReadonlyMap<string, readonly string[]> = new Map([
  ['loopback', ['127.0.0.0/8', '::1']],
  ['linklocal', ['169.254.0.0/16', 'fe80::/10']],
  ['uniquelocal', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']],
])

export interface TrustedProxies {
  /** The address is canonical. */
  trusts(address: string): boolean
}

export function parseTrustProxy(entries: readonly string[]): TrustedProxies {
  const blocks = entries.flatMap(writtenBlocks).map(readBlock)
  return { trusts: (address) => blocksHold(blocks, address) }
}

function writtenBlocks(entry: string): readonly string[] {
  return namedBlocks.get(entry.toLowerCase()) ?? [entry]
}

function readBlock(text: string): AddressBlock {
  const block = parseAddressBlock(text)
  if ('problem' in block) throw new RangeError(`"${text}" cannot be trusted: ${block.problem}`)
  return block
}

/** The own network: a proxy in it that is not trusted is most likely one that was forgotten. */
export const ownNetwork = parseTrustProxy([...namedBlocks.keys()])
