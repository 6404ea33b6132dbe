/** node:http with an LRU of quotes: the least code that reads, parses and keeps a quote until its own expiry. */
import { createServer } from 'node:http'
import { quoteOf } from './quotes.mjs'

const server = createServer(async (request, response) => {
  const { body, maxAge } = await quoteOf(request.url, request.headers['app-name'])
  response.writeHead(200, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': `private, max-age=${maxAge}`,
  })
  response.end(body)
})
server.keepAliveTimeout = 65_000
server.listen(Number(process.argv[2]), '127.0.0.1', 4_096)
