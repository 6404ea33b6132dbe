import { maskedAddress } from '../http/ip-address.ts'
import type { CoolDownMetrics } from '../metrics/cool-downs.ts'
import type { Logger } from '../process/logger.ts'
import type { CoolDownObserver } from '../quotes/cool-downs.ts'

/** Counts each cool-down, and says when it begins and when it is over. */
export function createCoolDownNotes(log: Logger, metrics: Pick<CoolDownMetrics, 'began'>): CoolDownObserver {
  const clients = (address: string | undefined) =>
    address === undefined ? { clients: 'all' } : { client: maskedAddress(address) }
  return {
    began(coolDown) {
      metrics.began(coolDown)
      const { application, address, leftMs } = coolDown
      log.warn(
        { application, ...clients(address), forMs: leftMs },
        'the provider answered a quote with 429: it is not asked for quotes of this application and these clients meanwhile',
      )
    },
    ended({ application, address, lastedMs }) {
      log.info(
        { application, ...clients(address), afterMs: Math.round(lastedMs) },
        'the provider answers quotes of this application and these clients again',
      )
    },
  }
}
