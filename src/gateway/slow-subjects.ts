import type { History } from '../operations/history.ts'
import type { Subject } from '../operations/outages.ts'
import type { Upstream } from '../upstream/upstream.ts'

/** Upstreams that take much longer than they usually do. */
export function createSlowSubjects({
  upstreams,
  slownessOf,
}: {
  upstreams: readonly Pick<Upstream, 'name'>[]
  slownessOf: History['slownessOf']
}): Subject[] {
  return upstreams.map(({ name }) => ({
    name: `${name} slowness`,
    concerned: 'none',
    count: () => 0,
    trouble() {
      const slowness = slownessOf(name)
      if (slowness === undefined) return undefined
      const [p95Ms, usualP95Ms] = [Math.round(slowness.p95Ms), Math.round(slowness.usualP95Ms)]
      return { what: 'slow', isSevere: false, upstream: name, p95Ms, usualP95Ms }
    },
  }))
}
