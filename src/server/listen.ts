import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A port that could not be taken, told in one line. */
export class ListenError extends Error {
  override readonly name = 'ListenError'
}

const noAddress = 'is no address of this machine'
const listenFailures: Record<string, string> = {
  EADDRINUSE: 'is already in use',
  EACCES: 'may not be listened on by this user',
  EADDRNOTAVAIL: noAddress,
  ENOTFOUND: noAddress,
  // IPv6 where that is switched off, and a link-local address without its zone.
  EAFNOSUPPORT: noAddress,
  EINVAL: noAddress,
}

export function listenError(
  error: NodeJS.ErrnoException,
  { host, port }: { host: string; port: number },
  setting: 'PORT' | 'ADMIN_PORT',
): ListenError {
  const why = listenFailures[error.code ?? ''] ?? `cannot be listened on (${error.code})`
  const byAddress = setting === 'PORT' ? 'HOST' : 'HOST or ADMIN_HOST'
  const other = why === noAddress ? byAddress : setting
  const at = host.includes(':') ? `[${host}]` : host
  return new ListenError(`${at}:${port} ${why}: choose another ${other}`, { cause: error })
}

/** Resolves to the URL that the server can be reached at. */
export function listen(
  server: Server,
  at: { host: string; port: number },
  { setting, onLateError }: { setting: 'PORT' | 'ADMIN_PORT'; onLateError(error: Error): void },
): Promise<string> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error) => {
      server.off('listening', onListening)
      reject(listenError(error, at, setting))
    }
    const onListening = () => {
      server.off('error', onError)
      // Such as an accept that fails for want of a descriptor: without a listener it would end the process.
      server.on('error', onLateError)
      // It may listen again, where the other port could not be had.
      server.once('close', () => server.off('error', onLateError))
      const { address, port, family } = server.address() as AddressInfo
      resolve(`http://${family === 'IPv6' ? `[${address}]` : address}:${port}`)
    }
    server.once('error', onError)
    server.once('listening', onListening)
    server.listen(at.port, at.host)
  })
}
