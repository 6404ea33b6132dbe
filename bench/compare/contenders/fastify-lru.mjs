/** Fastify with an LRU of quotes; no metrics, no log. */
import fastify from 'fastify'
import { quoteOf } from './quotes.mjs'

const app = fastify({ logger: false })
app.get('/v3/pairs/:pairId/quotes', async (request, reply) => {
  const { body, maxAge } = await quoteOf(request.url, request.headers['app-name'])
  reply.header('content-type', 'application/json')
  reply.header('cache-control', `private, max-age=${maxAge}`)
  return body
})
await app.listen({ port: Number(process.argv[2]), host: '127.0.0.1' })
