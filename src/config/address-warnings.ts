import { blocksHold, isLoopback, parseAddressBlock } from '../http/ip-address.ts'
import type { SettingValues } from './settings.ts'
import type { WarningContext } from './warnings.ts'

/** Which proxies are trusted, what is read of them, and which clients share quotes. */
export function addressWarnings(values: SettingValues, context: WarningContext): string[] {
  const { TRUST_PROXY: trusted } = values
  const warnings: string[] = []
  if (values.NODE_ENV === 'production' && trusted === undefined) {
    warnings.push(
      'TRUST_PROXY is not set in production: the provider sees the IP of your ' +
        'backend or load balancer for every user. Set TRUST_PROXY to their addresses.',
    )
  }
  if (trusted !== undefined) warnings.push(...trustedWarnings(trusted, values, context))
  if (values.QUOTE_PARTITION === 'none') {
    warnings.push(
      'QUOTE_PARTITION=none shares quotes among all clients: a client may get a quote that the provider does not ' +
        'offer in its place. Set QUOTE_PARTITION to ip or header, unless the provider never refuses by place.',
    )
  }
  return warnings
}

function trustedWarnings(
  trusted: readonly string[],
  { HOST: host }: SettingValues,
  { isSet, listens }: WarningContext,
): string[] {
  const warnings: string[] = []
  if (trusted.some(isEverybody)) {
    warnings.push(
      `TRUST_PROXY=${trusted} trusts every address: any client can claim any address, and ` +
        'with it any place. List only your own proxies.',
    )
  }
  if (!isSet('CLIENT_IP_HEADER')) {
    warnings.push(
      'TRUST_PROXY is set and CLIENT_IP_HEADER is not: only the header Forwarded of these proxies is read, and most ' +
        'proxies send X-Forwarded-For. Set CLIENT_IP_HEADER to the header that yours write: x-forwarded-for, forwarded ' +
        'or another.',
    )
  }
  if (listens && isLoopback(host) && !trusted.some(isOnThisMachine)) {
    warnings.push(
      `TRUST_PROXY=${trusted} names other machines alone, and HOST=${host} accepts connections from this machine alone: ` +
        'none of these proxies can connect. Set HOST=0.0.0.0, with ADMIN_HOST=127.0.0.1 to keep the operations listener ' +
        'on this machine; or add loopback to TRUST_PROXY, if your proxy runs here.',
    )
  }
  return warnings
}

function isEverybody(entry: string): boolean {
  const block = parseAddressBlock(entry)
  return 'prefix' in block && block.prefix === 0
}

/** Whether a connection over loopback may come from an address of the entry. */
function isOnThisMachine(entry: string): boolean {
  if (entry === 'loopback') return true
  const block = parseAddressBlock(entry)
  if (!('prefix' in block)) return false
  const [address = ''] = entry.split('/')
  return isLoopback(address) || ['127.0.0.1', '::1'].some((own) => blocksHold([block], own))
}
