import { type AddressInfo, createServer, type Socket } from 'node:net'

export interface RawUpstream {
  url: string
  port: number
  /** Everything received, one Buffer a connection. */
  received: Buffer[]
  close(): Promise<void>
}

/** An upstream that is nothing but a socket: it sends exactly the bytes that the test gives it. */
export async function startRawUpstream(
  onRequest: (socket: Socket, received: Buffer) => void,
): Promise<RawUpstream> {
  const received: Buffer[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    const index = received.push(Buffer.alloc(0)) - 1
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    let answered = false
    socket.on('data', (chunk) => {
      const all = Buffer.concat([received[index] as Buffer, chunk])
      received[index] = all
      if (answered || !all.includes('\r\n\r\n')) return
      answered = true
      onRequest(socket, all)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    received,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  }
}
