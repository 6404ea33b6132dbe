/** A port that could not be taken, described in one line. */
export class ListenError extends Error {
  override readonly name = 'ListenError'
}

const noAddress = 'is not an address of this machine'
const inUse = 'is already in use'
const listenFailures: Record<string, string> = {
  EADDRINUSE: inUse,
  EACCES: 'is not allowed for this user',
  EADDRNOTAVAIL: noAddress,
  ENOTFOUND: noAddress,
  // IPv6 where it is switched off, and a link-local address without its zone.
  EAFNOSUPPORT: noAddress,
  EINVAL: noAddress,
}

export function listenError(
  error: NodeJS.ErrnoException,
  { host, port }: { host: string; port: number },
  setting: 'PORT' | 'ADMIN_PORT',
): ListenError {
  const why = listenFailures[error.code ?? ''] ?? `cannot be opened (${error.code})`
  const byAddress = setting === 'PORT' ? 'HOST' : 'HOST or ADMIN_HOST'
  const other = why === noAddress ? byAddress : setting
  const at = host.includes(':') ? `[${host}]` : host
  // The likeliest reason: quotegate runs in another terminal.
  const instead =
    why === inUse
      ? `is quotegate running already? If not, choose another ${other}`
      : `choose another ${other}`
  return new ListenError(`${at}:${port} ${why}: ${instead}`, { cause: error })
}

/** STATE_DIRECTORY cannot be used, described in one line. */
export class StateError extends Error {
  override readonly name = 'StateError'
}
