/** What a team writes first: an LRU of quotes by URL and App-Name, each kept until its own expiry. */
import { LRUCache } from 'lru-cache'
import { Pool } from 'undici'

const upstream = new Pool(`http://127.0.0.1:${process.argv[3]}`, { connections: 128 })
const quotes = new LRUCache({ max: 100_000 })

export async function quoteOf(url, application) {
  const key = `${url} ${application}`
  let quote = quotes.get(key)
  if (quote === undefined || quote.expiresAtMs <= Date.now()) {
    const answer = await upstream.request({ method: 'GET', path: url })
    const body = await answer.body.text()
    quote = { body, expiresAtMs: JSON.parse(body).expiry }
    quotes.set(key, quote)
  }
  return {
    body: quote.body,
    maxAge: Math.floor((quote.expiresAtMs - Date.now()) / 1_000),
  }
}
