/** Where people read the documentation and the dashboard that alerts and panels link to. */
import { readFileSync } from 'node:fs'

interface Manifest {
  homepage?: string
}

/** Where the pages of docs/ are: below package.json's homepage, or in the repository itself without one. */
export function runbookPageOf({ homepage }: Manifest): string {
  const path = 'docs/operations.md'
  if (homepage === undefined) return path
  return `${homepage.replace(/#.*$/, '').replace(/\/+$/, '')}/blob/main/${path}`
}

const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as Manifest
export const runbookPage = runbookPageOf(manifest)
/** Each team has a Grafana of its own: a stand-in, to be replaced as docs/operations.md says. */
export const dashboardPage = 'https://grafana.example/d/quotegate'

export function runbookOf(alert: string): string {
  return `${runbookPage}#${alert.toLowerCase()}`
}
