import { connect, createServer, type Socket } from 'node:net'
import { listening } from '../machine/listening.ts'

export interface ConnectProxy {
  url: string
  address: { host: string; port: number; authorization: string | undefined }
  /** The head of each CONNECT, as received. */
  heads: string[]
  /** Both ends of each tunnel that is open. */
  tunnels: Set<{ client: Socket; upstream: Socket }>
  /** What happens to each CONNECT from now on. `open` connects to the authority, answers with 200 and joins both. */
  answer(next: (socket: Socket, open: (head?: string) => void) => void): void
}

/** A real proxy that opens tunnels by CONNECT. Every name is this machine to it. */
export async function connectProxy(authorization?: string): Promise<ConnectProxy> {
  const heads: string[] = []
  const tunnels: ConnectProxy['tunnels'] = new Set()
  let current: Parameters<ConnectProxy['answer']>[0] = (_socket, open) => open()

  const server = createServer((socket) => {
    socket.on('error', () => {})
    let head = ''
    socket.on('data', function read(bytes: Buffer) {
      head += bytes.toString('latin1')
      if (!head.endsWith('\r\n\r\n')) return
      socket.off('data', read)
      heads.push(head)
      const [, port] = /^CONNECT \S+:(\d+) HTTP\/1\.1\r\n/.exec(head) ?? []
      current(socket, (answer = 'HTTP/1.1 200 Connection established\r\n\r\n') => {
        const upstream = connect(Number(port), '127.0.0.1')
        const tunnel = { client: socket, upstream }
        upstream.on('connect', () => {
          tunnels.add(tunnel)
          socket.write(answer)
          socket.pipe(upstream).pipe(socket)
        })
        upstream.on('error', () => socket.destroy())
        for (const end of [socket, upstream]) {
          end.on('close', () => {
            tunnels.delete(tunnel)
            socket.destroy()
            upstream.destroy()
          })
        }
      })
    })
  })
  const { port, url } = await listening(server)
  return {
    url,
    address: { host: '127.0.0.1', port, authorization },
    heads,
    tunnels,
    answer: (next) => {
      current = next
    },
  }
}
