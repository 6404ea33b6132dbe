/** The deadline of a call passed. */
export class StoreTimeout extends Error {
  constructor(timeoutMs: number) {
    super(`no answer within ${timeoutMs} ms (VALKEY_TIMEOUT_MS)`)
    this.name = 'StoreTimeout'
  }
}

/** Whether the server itself refused a command: it is there, and the next command may fare better. */
export function isRefusal(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError'
}

const noPassword = /^NOAUTH/
const wrongPassword = /^WRONGPASS|^ERR invalid password/

/** A connection whose password was refused hears of its next command that it has given none. */
export function repeatsRefusal(error: unknown, before: unknown): boolean {
  if (!(error instanceof Error && before instanceof Error)) return false
  return noPassword.test(rootOf(error).message) && wrongPassword.test(rootOf(before).message)
}

const meanings: readonly (readonly [pattern: RegExp, meaning: string])[] = [
  [noPassword, 'it wants a password, and VALKEY_URL has none'],
  [wrongPassword, 'it refuses the user or the password of VALKEY_URL'],
  [/^NOPERM|^ERR The user executing the script can't/, 'the user of VALKEY_URL may not do this'],
  [/DB index is out of range|SELECT is not allowed/, 'it has no such database as VALKEY_URL names'],
  [/^READONLY/, 'it is a replica that takes no writes'],
  [/^(NOREPLICAS|MISCONF|OOM)/, 'it takes no writes'],
  [/^LOADING/, 'it is reading its data'],
  [/^CLUSTERDOWN/, 'the Cluster is incomplete'],
  [/ECONNREFUSED/, 'nothing listens there'],
  [/ENOTFOUND|EAI_AGAIN/, 'its name cannot be resolved'],
  [/All sentinels are unreachable/, 'no Sentinel names a master that can be reached'],
  [/^Connection is closed|^Failed to refresh slots/, 'it cannot be connected to'],
  [/^Command queue state error/, 'it gives answers that nobody asked for'],
  [/certificate|CERT_/i, 'its certificate is not trusted (NODE_EXTRA_CA_CERTS names a private authority)'],
]

/** What a log line says of a failure: what it means for whoever has to mend it, and the error's own words. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code, message: said } = rootOf(error)
  // A server that does not know AUTH repeats what it was given: older Sentinels, proxies, a renamed command.
  const message = said
    .replace(/(with args beginning with:).*/s, '$1 ****')
    // The client repeats an answer that nobody waits for: it may be a quote, or a client's address.
    .replace(/(Command queue state error).*/s, '$1')
  const words = [message, code].filter((word) => typeof word === 'string' && word !== '').join(' ')
  const meaning = meanings.find(([pattern]) => pattern.test(words))?.[1]
  return meaning === undefined ? words : `${meaning} (${message || code})`
}

/** Of a Cluster's or a Sentinel's failure, what happened at one of the nodes. */
function rootOf(error: Error): { message: string; code?: unknown } {
  const { lastNodeError } = error as { lastNodeError?: Error }
  return lastNodeError ?? error
}
