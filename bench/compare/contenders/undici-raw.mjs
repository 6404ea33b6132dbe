/**
 * node:http and undici's raw handler with nothing in between: the least code for a pass-through on these two. The raw
 * handler needs undici 7; the one of undici 8 also parses the headers, and would be slower.
 */
import { createServer } from 'node:http'
import { Pool } from 'undici'

const [port, upstreamPort] = process.argv.slice(2)
const upstream = new Pool(`http://127.0.0.1:${upstreamPort}`, { connections: 128 })
const ofThisHop = new Set(['host', 'connection', 'keep-alive', 'transfer-encoding'])

const endToEnd = (raw) => {
  const kept = []
  for (let at = 0; at < raw.length; at += 2) {
    if (!ofThisHop.has(String(raw[at]).toLowerCase()))
      kept.push(String(raw[at]), String(raw[at + 1]))
  }
  return kept
}

const server = createServer((request, response) => {
  const body = request.method === 'GET' ? null : request
  upstream.dispatch(
    {
      method: request.method,
      path: request.url,
      headers: endToEnd(request.rawHeaders),
      body,
    },
    {
      onConnect() {},
      onHeaders(status, headers, resume) {
        response.writeHead(status, endToEnd(headers))
        response.on('drain', resume)
        return true
      },
      // To wait for a client that has left would keep the connection forever.
      onData: (chunk) => response.write(chunk) || response.destroyed,
      onComplete: () => response.end(),
      onError: (error) => response.destroy(error),
    },
  )
})
server.keepAliveTimeout = 65_000
server.listen(Number(port), '127.0.0.1', 4_096)
