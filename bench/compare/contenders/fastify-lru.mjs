/** Fastify with an LRU of quotes; no metrics, no log. */
import fastify from 'fastify'
import { LRUCache } from 'lru-cache'
import { Pool } from 'undici'

const [port, upstreamPort] = process.argv.slice(2)
const upstream = new Pool(`http://127.0.0.1:${upstreamPort}`, { connections: 128 })
const quotes = new LRUCache({ max: 100_000 })

const app = fastify({ logger: false })
app.get('/v3/pairs/:pairId/quotes', async (request, reply) => {
  const key = `${request.url} ${request.headers['app-name']}`
  let quote = quotes.get(key)
  if (quote === undefined || quote.expiresAtMs <= Date.now()) {
    const answer = await upstream.request({ method: 'GET', path: request.url })
    const body = await answer.body.text()
    quote = { body, expiresAtMs: JSON.parse(body).expiry }
    quotes.set(key, quote)
  }
  reply.header('content-type', 'application/json')
  reply.header('cache-control', `private, max-age=${Math.floor((quote.expiresAtMs - Date.now()) / 1000)}`)
  return quote.body
})
await app.listen({ port: Number(port), host: '127.0.0.1' })
