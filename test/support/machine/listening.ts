import { once } from 'node:events'
import type { AddressInfo, Server, Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** Lets a server listen on a free port until the test is over, which also ends its connections. */
export async function listening(
  server: Server,
  port = 0,
  host = '127.0.0.1',
): Promise<{ port: number; url: string }> {
  const open = new Set<Socket>()
  server.on('connection', (socket: Socket) =>
    open.add(socket.on('close', () => open.delete(socket))),
  )
  onTestFinished(() => {
    server.close()
    for (const socket of open) socket.destroy()
  })
  await once(server.listen(port, host), 'listening')
  const taken = (server.address() as AddressInfo).port
  return { port: taken, url: `http://127.0.0.1:${taken}` }
}
