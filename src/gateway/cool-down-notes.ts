import type { LoggedAddress } from '../client/logged-address.ts'
import type { CoolDownMetrics } from '../metrics/cool-downs.ts'
import type { SummedLog } from '../process/summed-log.ts'
import type { CoolDownObserver } from '../quotes/cool-downs.ts'

export interface CoolDownNotesOptions {
  summedLog: SummedLog
  loggedAddress: LoggedAddress
  metrics: Pick<CoolDownMetrics, 'began'>
}

/** Counts each cool-down, and says when one begins, and when it is over. */
export function createCoolDownNotes(options: CoolDownNotesOptions): CoolDownObserver {
  const { summedLog, loggedAddress, metrics } = options
  const clients = (address: string | undefined) =>
    address === undefined ? { clients: 'all' } : { client: loggedAddress(address) }
  return {
    began(coolDown) {
      metrics.began(coolDown)
      const { application, address, scope, leftMs } = coolDown
      summedLog.say(
        {
          level: 'warn',
          cause: { coolDown: scope },
          message:
            'the provider answered a quote with 429: quotes of this application and these clients are not requested until its Retry-After is over',
        },
        () => ({ application, ...clients(address), forMs: leftMs }),
      )
    },
    ended({ scope, application, address, lastedMs }) {
      summedLog.say(
        {
          level: 'info',
          cause: { coolDownOver: scope },
          message: 'the provider answers quotes of this application and these clients again',
        },
        () => ({ application, ...clients(address), afterMs: Math.round(lastedMs) }),
      )
    },
  }
}
