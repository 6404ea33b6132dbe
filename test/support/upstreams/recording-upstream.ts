import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

export interface Recorded {
  method: string
  target: string
  rawHeaders: string[]
  headers: IncomingMessage['headers']
  body: Buffer
  /** False when the request broke off before its end. */
  complete: boolean
}

export interface RecordingUpstream {
  url: string
  port: number
  requests: Recorded[]
  connections: Set<Socket>
  /** What answers from now on; called once the whole request has been read. */
  answer(next: (request: Recorded, response: ServerResponse) => void): void
  close(): Promise<void>
}

/** A real upstream on a real port, which remembers what it was given byte for byte. */
export async function startRecordingUpstream(
  answer: (request: Recorded, response: ServerResponse) => void = (
    _request,
    response,
  ) => {
    response.end('ok')
  },
  options: { listener?: RequestListener } = {},
): Promise<RecordingUpstream> {
  let current = answer
  const requests: Recorded[] = []
  const connections = new Set<Socket>()
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    const recorded: Recorded = {
      method: request.method ?? '',
      target: request.url ?? '',
      rawHeaders: request.rawHeaders,
      headers: request.headers,
      body: Buffer.alloc(0),
      complete: false,
    }
    requests.push(recorded)
    if (options.listener) return options.listener(request, response)
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('error', () => {})
    request.on('end', () => {
      recorded.body = Buffer.concat(chunks)
      recorded.complete = true
      current(recorded, response)
    })
  })
  server.maxHeadersCount = 0
  server.on('connection', (socket: Socket) => {
    connections.add(socket)
    socket.on('close', () => connections.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    requests,
    connections,
    answer: (next) => {
      current = next
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
