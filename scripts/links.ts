/** Where people read the documentation and the dashboard that alerts and panels link to. */
import { runbookPageOf } from '../src/operations/outages.ts'
import { sectionOf } from '../src/operations/trouble-table.ts'
import { homepage } from '../src/process/package-info.ts'

export const runbookPage = runbookPageOf(homepage)
/** Each team has a Grafana of its own: a stand-in, to be replaced as docs/operations.md says. */
export const dashboardPage = 'https://grafana.example/d/quotegate'

export function runbookOf(alert: string): string {
  return `${runbookPage}#${sectionOf({ alert })}`
}
