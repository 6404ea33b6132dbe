import type { UpstreamName } from '../http/upstreams.ts'
import type { Logger } from '../process/logger.ts'
import type { SummedLog } from '../process/summed-log.ts'
import type { BreakerName } from '../upstream/breakers.ts'
import type { UpstreamObserver } from '../upstream/types.ts'

/** Says in the log when a breaker of one upstream opens, and why, and when it closes. */
export function createBreakerNotes(
  upstream: UpstreamName,
  { log, summedLog }: { log: Logger; summedLog: SummedLog },
): UpstreamObserver['breakerChanged'] {
  const nameOf = (breaker: BreakerName) => `the breaker of the ${upstream} upstream (${breaker})`

  return function breakerChanged(breaker, state, failure) {
    const members = { upstream, breaker, state }
    switch (state) {
      case 'open': {
        const message = `${nameOf(breaker)} is open, so requests are not sent: they kept failing, the last with ${failure}`
        summedLog.say({ level: 'warn', cause: { ...members, failure }, message })
        return
      }
      // Tried again and again while an outage lasts.
      case 'half-open':
        log.debug(members, `${nameOf(breaker)} lets one request try`)
        return
      case 'closed':
        summedLog.say({ level: 'warn', cause: members, message: `${nameOf(breaker)} is closed again` })
        return
    }
  }
}
