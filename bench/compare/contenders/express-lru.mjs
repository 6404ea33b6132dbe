/** What a team writes first: Express, an LRU of quotes, prom-client with label objects. */
import express from 'express'
import { LRUCache } from 'lru-cache'
import prometheus from 'prom-client'
import { Pool } from 'undici'

const [port, upstreamPort] = process.argv.slice(2)
const upstream = new Pool(`http://127.0.0.1:${upstreamPort}`, { connections: 128 })
const quotes = new LRUCache({ max: 100_000 })
const requests = new prometheus.Counter({ name: 'requests_total', help: 'Requests', labelNames: ['status'] })
const seconds = new prometheus.Histogram({ name: 'seconds', help: 'Duration', labelNames: ['route'] })

const app = express()
app.disable('x-powered-by')
app.use((_request, response, next) => {
  const stop = seconds.startTimer({ route: 'quote' })
  response.once('finish', () => {
    requests.inc({ status: response.statusCode })
    stop()
  })
  next()
})
app.get('/v3/pairs/:pairId/quotes', async (request, response) => {
  const key = `${request.originalUrl} ${request.get('app-name')}`
  let quote = quotes.get(key)
  if (quote === undefined || quote.expiresAtMs <= Date.now()) {
    const answer = await upstream.request({ method: 'GET', path: request.originalUrl })
    const body = await answer.body.text()
    quote = { body, expiresAtMs: JSON.parse(body).expiry }
    quotes.set(key, quote)
  }
  response.set('Cache-Control', `private, max-age=${Math.floor((quote.expiresAtMs - Date.now()) / 1000)}`)
  response.type('application/json').send(quote.body)
})
app.listen(Number(port), '127.0.0.1')
