import { Agent } from 'node:http'
import { type Ask, ask, giveQuote, quotePath } from '../clients/quotes.ts'
import { environment } from '../machine/environment.ts'
import { recordingUpstream } from './between.ts'
import { startListening } from './program.ts'

/** How many instances are replaced under load: three in the ordinary suite, twenty in `npm run check:long`. */
export const restarts = Number(environment().ROLLING_RESTARTS ?? 3)

export function startInstance(
  upstreamUrl: string,
  settings: { DRAIN_DELAY_MS: string; PORT?: string },
) {
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

/** Twelve callers at work: half of them ask for quotes, the others pay. */
export function startLoad(url: string): Load {
  const outcomes = new Map<string, number>()
  const posted: string[] = []
  let running = true
  const clients = Array.from({ length: 12 }, async (_, client) => {
    // Two in three keep their connection, as pools do; the others make a new one each time.
    const agent =
      client % 3 === 0 ? undefined : new Agent({ keepAlive: true, maxSockets: 1 })
    for (let count = 0; running; count += 1) {
      const body = `${client}/${count}`
      const pays = client % 2 === 0
      if (pays) posted.push(body)
      const path = pays ? '/checkouts' : `${quotePath}?amount=${count % 7}.5`
      const { outcome } = await send(url, agent, { path, ...(pays && { body }) })
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    }
    agent?.destroy()
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

/** A GET, or the POST of a body: its status, or what went wrong. */
export async function send(
  url: string,
  agent: Agent | undefined,
  asked: Pick<Ask, 'path' | 'body'>,
) {
  const method = asked.body === undefined ? 'GET' : 'POST'
  try {
    const answer = await ask(url, { ...asked, method, ...(agent && { agent }) })
    return { outcome: `${method} ${answer.status}`, body: answer.body }
  } catch (error) {
    return { outcome: `${method} ${error}`, body: '' }
  }
}
