import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/**
 * A port for a server that needs one. Below those that the system gives to outgoing connections (from 32768
 * on), of which another test's may take it again before the server is up.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const server = createServer()
    try {
      await once(server.listen(randomInt(20_000, 32_000), '127.0.0.1'), 'listening')
    } catch {
      continue
    }
    const { port } = server.address() as AddressInfo
    await once(server.close(), 'close')
    return port
  }
}
