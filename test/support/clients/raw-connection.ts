import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export interface ParsedAnswer {
  status: number
  reason: string
  /** Name, value, name, value, as they came; latin1, so that every byte is one character. */
  rawHeaders: string[]
  body: Buffer
  /** False when the connection ended before the framing said that the answer was whole. */
  whole: boolean
  /** What the framing was. */
  framing: 'none' | 'length' | 'chunked' | 'close'
  /** The heads of the 1xx answers that came first. */
  informational: number[]
}

/** The bytes of a GET, whose path stands as it is. */
export const get = (path = '/') => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`

/** A client that is nothing but a socket, for what fetch and http.request would tidy up. */
export class RawConnection {
  readonly socket: Socket
  #received: Buffer = Buffer.alloc(0)
  #ended = false
  #wake: () => void = () => {}
  error: Error | undefined

  /**
   * `bytes`: what it sends as soon as it is connected. `endsWithTest` is for tests that run one after another: of several at
   * one time, Vitest may take the wrong one.
   */
  constructor(
    url: string,
    bytes: string | Buffer = '',
    { endsWithTest = true }: { endsWithTest?: boolean } = {},
  ) {
    const { hostname, port } = new URL(url)
    this.socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
    this.socket.on('data', (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk])
      this.#wake()
    })
    this.socket.on('error', (error) => {
      this.error = error
    })
    for (const event of ['end', 'close']) {
      this.socket.on(event, () => {
        this.#ended = true
        this.#wake()
      })
    }
    if (endsWithTest) onTestFinished(() => void this.socket.destroy())
    if (bytes.length > 0) this.write(bytes)
  }

  get ended(): boolean {
    return this.#ended
  }

  get received(): Buffer {
    return this.#received
  }

  write(bytes: string | Buffer): void {
    this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  }

  /** The next answer. What comes after it stays for the next call. */
  async answer(options: { toHead?: boolean } = {}): Promise<ParsedAnswer> {
    for (;;) {
      const parsed = parseAnswer(this.#received, {
        toHead: options.toHead ?? false,
        ended: this.#ended,
      })
      if (parsed) {
        this.#received = this.#received.subarray(parsed.length)
        return parsed.answer
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** Until the other side has closed. */
  async closed(): Promise<void> {
    while (!this.#ended) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }
}

export interface RawAnswer {
  text: string
  /** How the connection ended: by the other side, or by us after waiting. */
  closed: boolean
  reset: boolean
}

/** Sends bytes as they are and gathers what comes back until the other side closes, or `waitMs` of silence. */
export async function sendRaw(
  url: string,
  bytes: string | Buffer | readonly (string | Buffer)[],
  { waitMs = 500 } = {},
): Promise<RawAnswer> {
  const connection = new RawConnection(url)
  for (const part of [bytes].flat()) connection.write(part)
  for (let before = -1; !connection.ended && connection.received.length !== before; ) {
    before = connection.received.length
    await Promise.race([
      connection.closed(),
      new Promise((resolve) => setTimeout(resolve, waitMs)),
    ])
  }
  connection.socket.destroy()
  const { ended, error, received } = connection
  return { text: received.toString('latin1'), closed: ended, reset: error !== undefined }
}

/** One request on a connection of its own. */
export async function rawExchange(
  url: string,
  request: string | Buffer,
): Promise<ParsedAnswer> {
  const bytes = typeof request === 'string' ? Buffer.from(request, 'latin1') : request
  const connection = new RawConnection(url, bytes)
  const answer = await connection.answer({
    toHead: /^HEAD /.test(bytes.toString('latin1', 0, 5)),
  })
  connection.socket.destroy()
  return answer
}

/** The next answer in these bytes, and how many of them it took. Undefined: it is not whole yet. */
export function parseAnswer(
  bytes: Buffer,
  options: { toHead: boolean; ended: boolean },
): { answer: ParsedAnswer; length: number } | undefined {
  const informational: number[] = []
  let start = 0
  for (;;) {
    const headEnd = bytes.indexOf('\r\n\r\n', start)
    if (headEnd === -1) {
      if (!options.ended) return undefined
      const answer: ParsedAnswer = {
        status: 0,
        reason: '',
        rawHeaders: [],
        body: bytes.subarray(start),
        whole: false,
        framing: 'none',
        informational,
      }
      return { answer, length: bytes.length }
    }
    const [statusLine = '', ...lines] = bytes
      .toString('latin1', start, headEnd)
      .split('\r\n')
    const status = Number(statusLine.slice(9, 12))
    start = headEnd + 4
    if (status < 200) {
      informational.push(status)
      continue
    }
    const rawHeaders = lines.flatMap((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon), line.slice(colon + 1).replace(/^ | $/g, '')]
    })
    const read = readBody(bytes.subarray(start), { rawHeaders, status, ...options })
    if (read === undefined) return undefined
    const { consumed, ...rest } = read
    return {
      answer: {
        status,
        reason: statusLine.slice(13),
        rawHeaders,
        informational,
        ...rest,
      },
      length: start + consumed,
    }
  }
}

function readBody(
  bytes: Buffer,
  options: { rawHeaders: string[]; status: number; toHead: boolean; ended: boolean },
): (Pick<ParsedAnswer, 'body' | 'whole' | 'framing'> & { consumed: number }) | undefined {
  const { rawHeaders, status, toHead, ended } = options
  const none = Buffer.alloc(0)
  if (toHead || status === 204 || status === 304)
    return { body: none, whole: true, framing: 'none', consumed: 0 }
  if (valuesOf(rawHeaders, 'transfer-encoding').includes('chunked')) {
    const { body, consumed, whole } = readChunks(bytes)
    return whole || ended ? { body, whole, framing: 'chunked', consumed } : undefined
  }
  const [length] = valuesOf(rawHeaders, 'content-length')
  if (length !== undefined) {
    const whole = bytes.length >= Number(length)
    const body = bytes.subarray(0, Number(length))
    return whole || ended
      ? { body, whole, framing: 'length', consumed: body.length }
      : undefined
  }
  return ended
    ? { body: bytes, whole: true, framing: 'close', consumed: bytes.length }
    : undefined
}

function readChunks(bytes: Buffer): { body: Buffer; consumed: number; whole: boolean } {
  const parts: Buffer[] = []
  let position = 0
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', position)
    const size =
      lineEnd === -1
        ? Number.NaN
        : Number.parseInt(bytes.toString('latin1', position, lineEnd), 16)
    const end = lineEnd + 2 + size
    if (Number.isNaN(size) || bytes.length < end + 2) {
      return { body: Buffer.concat(parts), consumed: bytes.length, whole: false }
    }
    position = end + 2
    if (size === 0) return { body: Buffer.concat(parts), consumed: position, whole: true }
    parts.push(bytes.subarray(lineEnd + 2, end))
  }
}

/** All values of one header of a raw list. */
export function valuesOf(rawHeaders: readonly string[], lowerCaseName: string): string[] {
  return rawHeaders.filter(
    (_, index) =>
      index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === lowerCaseName,
  )
}

/** A raw list without the lines that a hop may change. */
export function withoutHopByHop(
  rawHeaders: readonly string[],
  ...more: string[]
): string[] {
  const hop = ['host', 'connection', 'keep-alive', 'transfer-encoding', ...more]
  return rawHeaders.filter(
    (_, index) => !hop.includes((rawHeaders[index - (index % 2)] ?? '').toLowerCase()),
  )
}
