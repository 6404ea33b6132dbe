import { Agent, request } from 'node:http'
import { giveQuote, quotePath } from '../clients/quotes.ts'
import { environment } from '../machine/environment.ts'
import { recordingUpstream } from './between.ts'
import { startListening } from './program.ts'

/** How many instances are replaced under load: three in the ordinary suite, twenty in `npm run check:long`. */
export const restarts = Number(environment().ROLLING_RESTARTS ?? 3)

export function startInstance(upstreamUrl: string, settings: { DRAIN_DELAY_MS: string; PORT?: string }) {
  const urls = { SWAP_BASE_URL: upstreamUrl, PAYMENTS_BASE_URL: upstreamUrl }
  return startListening({ ...urls, ...settings })
}

/** A provider and a payments API in one, which takes its time with payments. */
export function rollingUpstream() {
  return recordingUpstream(({ target }, response) => {
    if (target.startsWith('/v3')) giveQuote(response)
    else setTimeout(() => response.writeHead(201).end('created'), 20)
  })
}

export interface Load {
  /** The bodies of all POSTs that were sent. */
  posted: string[]
  /** Ends it. How often each outcome was seen, such as `GET 200`, or the method and what went wrong. */
  end(): Promise<Map<string, number>>
}

/** Twelve clients at work: half of them ask for quotes, the others pay. */
export function startLoad(url: string): Load {
  const outcomes = new Map<string, number>()
  const posted: string[] = []
  let running = true
  const clients = Array.from({ length: 12 }, async (_, client) => {
    // Two in three keep their connection, as pools do; the others make a new one each time.
    const agent = client % 3 === 0 ? false : new Agent({ keepAlive: true, maxSockets: 1 })
    for (let count = 0; running; count += 1) {
      const body = `${client}/${count}`
      const pays = client % 2 === 0
      if (pays) posted.push(body)
      const outcome = pays
        ? await call(url, agent, { method: 'POST', path: '/checkouts', body })
        : await call(url, agent, { method: 'GET', path: `${quotePath}?amount=${count % 7}.5` })
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    }
    if (agent) agent.destroy()
  })
  return {
    posted,
    async end() {
      running = false
      await Promise.all(clients)
      return outcomes
    },
  }
}

interface Call {
  method: 'GET' | 'POST'
  path: string
  body?: string
}

function call(url: string, agent: Agent | false, { method, path, body }: Call): Promise<string> {
  const { hostname, port } = new URL(url)
  const headers = { Host: 'gateway', 'App-Name': 'wallet' }
  return new Promise((resolve) => {
    const sent = request({ hostname, port, method, path, headers, agent }, (response) => {
      response.on('error', (error) => resolve(`${method} ${error.message}`))
      response.resume().on('end', () => resolve(`${method} ${response.statusCode}`))
    })
    sent.on('error', (error) => resolve(`${method} ${error.message}`))
    sent.end(body)
  })
}
