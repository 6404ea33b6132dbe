import { hash } from 'node:crypto'
import { headerLines, lineBreak } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'

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

/** An application in places that are bounded by number, not by bytes: a header may have thousands of bytes. */
export function briefApplication(appName: string | undefined): string {
  if (appName === undefined) return ''
  return appName.length <= 128 ? appName : hash('sha256', appName, 'base64url')
}

/** The application of a quote request: App-Name is always one of its keyed headers. */
export function applicationAmong(
  keyedHeaders: readonly (readonly [name: string, value: string | undefined])[],
): string {
  return briefApplication(keyedHeaders.find(([name]) => name === 'app-name')?.[1])
}
