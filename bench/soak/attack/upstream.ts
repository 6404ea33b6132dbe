import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { idHeader } from '../clients.ts'

export interface AttackedUpstream {
  url: string
  /** How often each POST of an honest client was seen. */
  seen: Map<string, number>
  quoteCalls: number
  /** Quote calls and orders on behalf of clients without an address. */
  withoutAddress: number
  close(): void
}

const quoteLifeMs = 5_000
/** More than the sockets between take up, so that a client that does not read it holds its connection. */
const large = Buffer.alloc(8_000_000, 'x')

/** Both upstreams. Answers at once, so that whatever takes long is the gateway's doing. */
export async function startAttackedUpstream(): Promise<AttackedUpstream> {
  let quotes = 0
  const server = createServer(async (request, response) => {
    const { url = '', headers } = request
    if (headers.forwarded === 'for=unknown') upstream.withoutAddress += 1
    const asked = /^\/v3\/pairs\/([^/]+)\/quotes\?amount=([\d.]+)$/.exec(url)
    if (asked) {
      upstream.quoteCalls += 1
      quotes += 1
      return answer(response, 200, {
        id: `quote-${quotes}`,
        pairId: asked[1],
        fromAmount: { assetId: 'ETH', value: asked[2] },
        toAmount: { assetId: 'USDC', value: `${1_000 + quotes}.25` },
        expiry: Date.now() + quoteLifeMs,
      })
    }
    if (request.method !== 'POST') {
      if (url === '/checkouts/large') return void response.writeHead(200).end(large)
      return answer(response, 200, { path: url })
    }
    const id = headers[idHeader]
    if (typeof id === 'string') upstream.seen.set(id, (upstream.seen.get(id) ?? 0) + 1)
    const body = await readBody(request)
    if (body !== undefined) answer(response, 201, { id, sent: body })
  })
  server.requestTimeout = 0
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const upstream: AttackedUpstream = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen: new Map(),
    quoteCalls: 0,
    withoutAddress: 0,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
  return upstream
}

/** Undefined: it broke off. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of request) chunks.push(chunk)
  } catch {
    return undefined
  }
  return Buffer.concat(chunks).toString()
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body)
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(text)),
  })
  response.end(text)
}
