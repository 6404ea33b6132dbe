import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { listenError } from '../process/listen-error.ts'

export type OnLateError = (error: Error) => void

/** Resolves to the URL that the server can be reached at. */
export function listen(
  server: Server,
  /** Without a `backlog` it is Node's, 511. */
  at: { host: string; port: number; backlog?: number },
  { setting, onLateError }: { setting: 'PORT' | 'ADMIN_PORT'; onLateError: OnLateError },
): Promise<string> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error) => {
      server.off('listening', onListening)
      reject(listenError(error, at, setting))
    }
    const onListening = () => {
      server.off('error', onError)
      // For example an accept that fails because no file descriptor is left: without a listener it would end the process.
      server.on('error', onLateError)
      // The server may listen again, if the other port could not be had.
      server.once('close', () => server.off('error', onLateError))
      const { address, port, family } = server.address() as AddressInfo
      resolve(`http://${family === 'IPv6' ? `[${address}]` : address}:${port}`)
    }
    server.once('error', onError)
    server.once('listening', onListening)
    server.listen(at)
  })
}
