import { lookup as systemLookup } from 'node:dns'
import type { LookupFunction } from 'node:net'

type Answer = Parameters<LookupFunction>[2]

/**
 * For one name: who asks while the answer is under way waits for the same one. The system is asked in one of the few
 * threads of the process, which a name server that says nothing holds for seconds: a burst of requests to one dead name
 * would keep the other upstreams from theirs.
 */
export function sharedLookup(lookup: LookupFunction = systemLookup): LookupFunction {
  let waiting: Answer[] = []
  return (name, options, callback) => {
    waiting.push(callback)
    if (waiting.length > 1) return
    lookup(name, options, (...answer) => {
      const answered = waiting
      waiting = []
      for (const tell of answered) tell(...answer)
    })
  }
}
