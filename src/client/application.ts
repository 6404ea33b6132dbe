import { headerLines, lineBreak } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import { briefText } from '../process/brief-text.ts'

/** App-Name as the swap upstream sees it: the request's own, else SWAP_APP_NAME. Undefined if there is neither. */
export type ApplicationOf = (rawHeaders: readonly string[]) => string | undefined

export function createApplicationOf(defaultName: string | undefined): ApplicationOf {
  return (rawHeaders) => headerLines(rawHeaders, 'app-name') ?? defaultName
}

/** Of two App-Name headers, limits, the ledger and the provider might each use another one. */
export function refuseSecondAppName(appName: string | undefined): void {
  if (!appName?.includes(lineBreak)) return
  throw new Problem('malformed-request', { detail: 'There is more than one App-Name header.' })
}

/** The application of a quote request: App-Name is always one of its keyed headers. */
export function applicationAmong(
  keyedHeaders: readonly (readonly [name: string, value: string | undefined])[],
): string {
  return briefText(keyedHeaders.find(([name]) => name === 'app-name')?.[1] ?? '')
}
