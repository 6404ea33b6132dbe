import { maskedAddress } from '../http/ip-address.ts'

/** How a client's address is written in the log; undefined: it is not. */
export type LoggedAddress = (address: string | undefined) => string | undefined

/** By LOG_CLIENT_ADDRESS. */
export function createLoggedAddress(how: 'masked' | 'full' | 'none'): LoggedAddress {
  switch (how) {
    case 'masked':
      return maskedAddress
    case 'full':
      return (address) => address ?? 'unknown'
    case 'none':
      return () => undefined
  }
}
