import { connect, type Socket } from 'node:net'

export interface RawAnswer {
  status: number
  /** Names in lower case. */
  headers: ReadonlyMap<string, string>
  body: Buffer
}

export interface RawRequest {
  method?: string
  target: string
  headers?: readonly string[]
  body?: string
}

export function requestText({
  method = 'GET',
  target,
  headers = [],
  body,
}: RawRequest): string {
  const length = body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]
  return `${[`${method} ${target} HTTP/1.1`, 'Host: 127.0.0.1', ...headers, ...length].join('\r\n')}\r\n\r\n${body ?? ''}`
}

const answerWithinMs = 10_000

/** One kept connection with one request at a time, and as little work as possible. */
export class RawConnection {
  readonly #socket: Socket
  #received = Buffer.alloc(0)
  #asked: { resolve(answer: RawAnswer): void; reject(error: Error): void } | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.on('data', (chunk) => {
      this.#received =
        this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk])
      this.#take()
    })
    socket.setTimeout(answerWithinMs, () => {
      if (this.#asked) socket.destroy(new Error(`no answer within ${answerWithinMs} ms`))
    })
    socket.on('error', (error) => this.#fail(error))
    socket.on('close', () => this.#fail(new Error('the connection was closed')))
  }

  static open(port: number): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1')
      socket.once('error', reject)
      socket.once('connect', () => {
        socket.off('error', reject)
        resolve(new RawConnection(socket))
      })
    })
  }

  ask(request: string): Promise<RawAnswer> {
    return new Promise((resolve, reject) => {
      this.#asked = { resolve, reject }
      this.#socket.write(request)
    })
  }

  close(): void {
    this.#asked = undefined
    this.#socket.destroy()
  }

  #fail(error: Error): void {
    const asked = this.#asked
    this.#asked = undefined
    asked?.reject(error)
  }

  #take(): void {
    const headEnd = this.#received.indexOf('\r\n\r\n')
    if (headEnd === -1) return
    const [statusLine = '', ...lines] = this.#received
      .toString('latin1', 0, headEnd)
      .split('\r\n')
    const headers = new Map(
      lines.map((line) => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
      }),
    )
    // Every server here states it. One that did not would be found out by its missing body.
    const length = Number(headers.get('content-length') ?? 0)
    const body = this.#received.subarray(headEnd + 4)
    if (body.length < length) return
    this.#received = Buffer.alloc(0)
    const asked = this.#asked
    this.#asked = undefined
    asked?.resolve({ status: Number(statusLine.split(' ')[1]), headers, body })
  }
}

/** One request over its own connection. */
export async function askOnce(port: number, request: RawRequest): Promise<RawAnswer> {
  const connection = await RawConnection.open(port)
  try {
    return await connection.ask(requestText(request))
  } finally {
    connection.close()
  }
}
