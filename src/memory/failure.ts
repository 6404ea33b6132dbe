/** The server itself refused a command. It can be reached, and the next command may succeed. */
export function isRefusal(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError'
}

const refusals =
  /^(OOM|READONLY|MISCONF|NOREPLICAS|NOAUTH|NOPERM|LOADING|MASTERDOWN|CLUSTERDOWN)|user executing the script/

/** The server would refuse our other commands too: it is full, a replica or loading, or denies our user. */
export function refusesUs(error: unknown): boolean {
  return isRefusal(error) && error instanceof Error && refusals.test(error.message)
}

export function isOfReplica(error: unknown): boolean {
  return error instanceof Error && /^(READONLY|MASTERDOWN)/.test(error.message)
}

const noPassword = /^NOAUTH/
const wrongPassword = /^WRONGPASS|^ERR invalid password/

/** After a wrong password, the server refuses the next command for a missing one. */
export function repeatsRefusal(error: unknown, before: unknown): boolean {
  if (!(error instanceof Error && before instanceof Error)) return false
  return (
    noPassword.test(rootOf(error).message) && wrongPassword.test(rootOf(before).message)
  )
}

const meanings: readonly (readonly [pattern: RegExp, meaning: string])[] = [
  [noPassword, 'the store requires a password, and VALKEY_URL has none'],
  [wrongPassword, 'the store refuses the user or the password of VALKEY_URL'],
  [
    /^DENIED/,
    'the store is in protected mode and refuses connections from other machines',
  ],
  [
    /^NOPERM|^ERR The user executing the script can't/,
    'the user of VALKEY_URL may not do this',
  ],
  [
    /DB index is out of range|SELECT is not allowed/,
    'the store does not have the database that VALKEY_URL names',
  ],
  [/^READONLY/, 'the store is a replica that accepts no writes'],
  [/^(NOREPLICAS|MISCONF|OOM)/, 'the store accepts no writes'],
  [/^LOADING/, 'the store is still loading its data'],
  [/^CLUSTERDOWN/, 'the Cluster is incomplete'],
  [/ECONNRESET|EPIPE/, 'the connection was closed'],
  [/ECONNREFUSED/, 'no server listens at the address of VALKEY_URL'],
  [/ENOTFOUND|EAI_AGAIN/, 'the host name in VALKEY_URL cannot be resolved'],
  [/All sentinels are unreachable/, 'no Sentinel names a master that can be reached'],
  [/^Connection is closed|^Failed to refresh slots/, 'the store cannot be connected to'],
  [/^Command queue state error/, 'the store sent a reply that belongs to no command'],
  [
    /certificate|CERT_/i,
    'the certificate of the store is not trusted (set NODE_EXTRA_CA_CERTS for a private authority)',
  ],
]

/** What a failure means to the operator, with the error's own message. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code, message: original } = rootOf(error)
  // A server without AUTH (older Sentinels, proxies, a renamed command) repeats its arguments, including the password.
  const message = original
    .replace(/(with args beginning with:).*/s, '$1 ****')
    // ioredis quotes a reply that belongs to no command, such as a quote or a user's address.
    .replace(/(Command queue state error).*/s, '$1')
    // A refusal within a script adds the script's name to the same reason.
    .replace(/ script: [0-9a-f]{40}.*/s, '')
  const words = [message, code]
    .filter((word) => typeof word === 'string' && word !== '')
    .join(' ')
  const meaning = meanings.find(([pattern]) => pattern.test(words))?.[1]
  return meaning === undefined ? words : `${meaning} (${message || code})`
}

/** The error of the last node that was tried, if a Cluster or its Sentinels failed. */
function rootOf(error: Error): { message: string; code?: unknown } {
  const { lastNodeError } = error as { lastNodeError?: Error }
  return lastNodeError ?? error
}
