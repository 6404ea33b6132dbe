import { isIP } from 'node:net'

/** Whether `host` is an IP address without brackets, or a host name. */
export function isHost(host: string): boolean {
  if (isIP(host) !== 0) return true
  // Some resolvers take a name whose last label is a number (127.1, 0) for an address, others do not.
  const lastLabel = host.split('.').at(-1) ?? ''
  return /^[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?$/i.test(host) && !/^\d*$|^0x/i.test(lastLabel)
}
