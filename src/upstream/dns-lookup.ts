import { lookup as systemLookup } from 'node:dns'
import type { LookupFunction } from 'node:net'

type LookupCallback = Parameters<LookupFunction>[2]

/**
 * Shares the lookup of one name among all callers that ask while it runs. A lookup by the system occupies one of the few
 * threads of the process, for seconds if the name server does not answer. Without sharing, a burst of requests to one
 * dead name would leave no thread for the names of the other upstreams.
 */
export function sharedLookup(lookup: LookupFunction = systemLookup): LookupFunction {
  let waiting: LookupCallback[] = []
  return (name, options, callback) => {
    waiting.push(callback)
    if (waiting.length > 1) return
    lookup(name, options, (...answer) => {
      const callbacks = waiting
      waiting = []
      for (const answered of callbacks) answered(...answer)
    })
  }
}
