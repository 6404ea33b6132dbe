import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'

export const idHeader = 'x-soak-id'
/** Every deadline of the gateway is shorter: a client that still waits then has been forgotten. */
const patienceMs = 20_000

export interface Tally {
  requests: number
  answered: number
  problems: number
  broken: number
  left: number
  quotes: number
  posts: number
  /** Broken promises, in words. */
  wrong: string[]
  expired: string[]
  forgotten: string[]
}

export function newTally(): Tally {
  const counts = {
    requests: 0,
    answered: 0,
    problems: 0,
    broken: 0,
    left: 0,
    quotes: 0,
    posts: 0,
  }
  return { ...counts, wrong: [], expired: [], forgotten: [] }
}

interface Ask {
  method: 'GET' | 'POST'
  path: string
  body?: Record<string, unknown>
  /** What is wrong with a complete answer; undefined: nothing. */
  check(status: number, answer: Record<string, unknown>): string | undefined
  leaves?: 'mid-request' | 'mid-answer'
}

type Outcome = { status: number; answer: Record<string, unknown> } | undefined

/** One client: sends one request after another until `isOver`, and sometimes leaves in the middle of one. */
export async function beClient(
  url: string,
  tally: Tally,
  isOver: () => boolean,
): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  while (!isOver()) {
    const path = `/v3/pairs/${pick(['ETH_USDC', 'BTC_USDC'])}/quotes?amount=${pick(['0.1', '0.2', '0.5', '1'])}`
    const kind = Math.random()
    if (kind < 0.5) await askQuote(path)
    else if (kind < 0.6) await order(await askQuote(path))
    else if (kind < 0.8) await pay()
    else await send(pick([pairs, checkouts]))
  }
  agent.destroy()

  async function askQuote(path: string): Promise<Outcome> {
    const sentAtMs = Date.now()
    const check: Ask['check'] = (status, quote) => {
      if (status !== 200) return refusalProblem(status, quote)
      tally.quotes += 1
      if (Number(quote.expiry) <= sentAtMs) {
        tally.expired.push(
          `${path}: expired ${sentAtMs - Number(quote.expiry)} ms before it was asked for`,
        )
      }
      const asked = /pairs\/(.+)\/quotes\?amount=(.+)/.exec(path)
      const { value } = (quote.fromAmount ?? {}) as { value?: unknown }
      return quote.pairId === asked?.[1] && String(value) === asked?.[2]
        ? undefined
        : 'a quote for something else'
    }
    const outcome = await send({ method: 'GET', path, check })
    return outcome?.status === 200 ? outcome : undefined
  }

  async function order(quoted: Outcome): Promise<void> {
    if (quoted === undefined) return
    const { pairId, fromAmount, toAmount, id } = quoted.answer
    const body = {
      pairId,
      quoteId: id,
      fromAmount,
      toAmount,
      fromAddress: randomUUID(),
      toAddress: '0xto',
    }
    const check: Ask['check'] = (status, answer) =>
      status >= 400 ||
      answer.fromAddress === undefined ||
      answer.fromAddress === body.fromAddress
        ? undefined
        : "another client's order"
    await send({ method: 'POST', path: '/v3/orders/float', body, check })
  }

  async function pay(): Promise<void> {
    const body = { amount: '10.00', nonce: randomUUID() }
    const check: Ask['check'] = (status, answer) =>
      status !== 201
        ? refusalProblem(status, answer)
        : answer.nonce === body.nonce
          ? undefined
          : "another client's checkout"
    await send({ method: 'POST', path: '/checkouts', body, check })
  }

  function send(ask: Ask): Promise<Outcome> {
    const chance = Math.random()
    const leaves =
      chance < 0.03 ? 'mid-request' : chance < 0.06 ? 'mid-answer' : undefined
    return exchange(
      { url, agent: Math.random() < 0.2 ? false : agent, tally },
      leaves ? { ...ask, leaves } : ask,
    )
  }
}

const pairs: Ask = {
  method: 'GET',
  path: '/v3/pairs',
  check: (status, answer) =>
    status !== 200
      ? refusalProblem(status, answer)
      : Object.keys(answer).length > 0
        ? undefined
        : 'an empty list of pairs',
}

const checkouts: Ask = {
  method: 'GET',
  path: '/checkouts?limit=50',
  check: (status, answer) =>
    status !== 200
      ? refusalProblem(status, answer)
      : Array.isArray(answer.data)
        ? undefined
        : 'no list',
}

function refusalProblem(
  status: number,
  answer: Record<string, unknown>,
): string | undefined {
  // The payments API says `error`, the swap API `code`, and the gateway `type`.
  const hasReason =
    status >= 400 && (answer.code ?? answer.type ?? answer.error) !== undefined
  return hasReason ? undefined : `a ${status} that says nothing`
}

function exchange(
  { url, agent, tally }: { url: string; agent: Agent | false; tally: Tally },
  { method, path, body, check, leaves }: Ask,
): Promise<Outcome> {
  tally.requests += 1
  const headers: Record<string, string> = {
    Host: 'gateway',
    'App-Name': 'soak',
    Authorization: 'Bearer soak',
  }
  const text = body === undefined ? '' : JSON.stringify(body)
  if (method === 'POST') {
    tally.posts += 1
    Object.assign(headers, {
      [idHeader]: randomUUID(),
      'Content-Length': String(text.length),
    })
  }
  const { hostname, port } = new URL(url)
  return new Promise((resolve) => {
    const forgotten = setTimeout(() => {
      tally.forgotten.push(`${method} ${path}`)
      call.destroy()
    }, patienceMs)
    let isDone = false
    const done = (outcome: Outcome, counted: 'answered' | 'broken' | 'left') => {
      if (isDone) return
      isDone = true
      clearTimeout(forgotten)
      tally[counted] += 1
      resolve(outcome)
    }
    const call = request({ hostname, port, path, method, headers, agent }, (response) => {
      const chunks: Buffer[] = []
      if (leaves === 'mid-answer') {
        done(undefined, 'left')
        call.destroy()
        return
      }
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', () => done(undefined, 'broken'))
      response.on('end', () => {
        const status = response.statusCode ?? 0
        const said = Buffer.concat(chunks).toString()
        if (response.headers['content-type'] === 'application/problem+json')
          tally.problems += 1
        const answer = readJson(said)
        const wrong =
          answer === undefined ? `not JSON: ${said.slice(0, 80)}` : check(status, answer)
        if (wrong !== undefined)
          tally.wrong.push(`${method} ${path} (${status}): ${wrong}`)
        done(answer && { status, answer }, 'answered')
      })
    })
    call.on('error', () => done(undefined, leaves === 'mid-request' ? 'left' : 'broken'))
    if (leaves === 'mid-request') {
      call.write(text.slice(0, Math.floor(text.length / 2)))
      setTimeout(() => call.destroy(new Error('the client has left')), Math.random() * 30)
    } else call.end(text)
  })
}

export function readJson(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return undefined
  }
}

function pick<Choice>(choices: readonly Choice[]): Choice {
  return choices[Math.floor(Math.random() * choices.length)] as Choice
}
