import { homepage } from '../process/package-info.ts'
import type { Trouble } from './outages.ts'

/** The runbook, below the homepage of package.json, or in the repository itself without one. */
export function runbookPageOf(homepage: string | undefined): string {
  const path = 'docs/operations.md'
  if (homepage === undefined) return path
  const { origin, pathname } = new URL(homepage)
  return `${origin}${pathname.endsWith('/') ? pathname.slice(0, -1) : pathname}/blob/main/${path}`
}

/** The section of the runbook about each trouble. */
const sections: Readonly<Record<Trouble['what'] | 'clock-unknown', string>> = {
  upstream: 'quotegatebreakeropen',
  pairs: 'quotegatepairsstopped',
  slow: 'quotegateproviderslow',
  store: 'quotegatestoredown',
  clock: 'quotegateclockoffset',
  'clock-unknown': 'quotegateclockunknown',
  'trust-proxy': 'users-look-as-if-they-were-one',
  'client-ip-header': 'users-look-as-if-they-were-one',
  'unknown-orders': 'quotegateordersunknown',
}

export const runbookSections = Object.values(sections)

export function runbookOf({ what, offsetMs }: Pick<Trouble, 'what' | 'offsetMs'>): string {
  const section = what === 'clock' && offsetMs === undefined ? 'clock-unknown' : what
  return `${runbookPageOf(homepage)}#${sections[section]}`
}
