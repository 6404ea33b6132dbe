import { request as httpRequest, type IncomingMessage, validateHeaderValue } from 'node:http'
import { isIP } from 'node:net'
import type { OperationsView } from './view.ts'

/** What the person at the console asked for; from the wire, so nothing is taken for granted. */
export interface Trial {
  kind?: unknown
  pair?: unknown
  amount?: unknown
  application?: unknown
  client?: unknown
  body?: unknown
}

export interface TrialOutcome {
  curl: string
  status: number
  reason: string
  headers: readonly (readonly [string, string])[]
  body: string
  durationMs: number
}

interface TrialRequest {
  method: 'GET' | 'POST'
  target: string
  headers: [string, string][]
  body: string
}

const answerBytesMost = 262_144
const waitMostMs = 40_000

export class BadTrial extends Error {}

/** Sends what the person asked for through the gateway's own traffic listener, as any client would. */
export async function tryIt(trial: Trial, traffic: OperationsView['traffic']): Promise<TrialOutcome> {
  const url = traffic.url()
  if (url === undefined) throw new BadTrial('The traffic listener is not open.')
  const wanted = readTrial(trial, traffic.clientIpHeader)
  const startedAtMs = performance.now()
  const { answer, body } = await send(url, wanted)
  const pairs = answer.rawHeaders.flatMap((name, index) =>
    index % 2 === 0 ? [[name, answer.rawHeaders[index + 1] ?? ''] as const] : [],
  )
  return {
    curl: curlOf(url, wanted),
    status: answer.statusCode ?? 0,
    reason: answer.statusMessage ?? '',
    headers: pairs,
    body,
    durationMs: performance.now() - startedAtMs,
  }
}

function readTrial(trial: Trial, clientIpHeader: string): TrialRequest {
  const headers: [string, string][] = []
  const application = text(trial.application)
  if (application !== '') headers.push(['App-Name', application])
  const client = text(trial.client)
  if (client !== '') headers.push(clientHeader(clientIpHeader, client))
  for (const [name, value] of headers) {
    try {
      validateHeaderValue(name, value)
    } catch {
      throw new BadTrial(`${name} has characters that no header may have.`)
    }
  }
  if (trial.kind === 'order') {
    headers.push(['Content-Type', 'application/json'])
    return { method: 'POST', target: '/v3/orders/float', headers, body: text(trial.body) }
  }
  if (trial.kind !== 'quote') throw new BadTrial('A trial is a quote or an order.')
  const pair = encodeURIComponent(text(trial.pair))
  const amount = encodeURIComponent(text(trial.amount))
  if (pair === '' || pair === '.' || pair === '..') throw new BadTrial('A quote needs a pair.')
  return { method: 'GET', target: `/v3/pairs/${pair}/quotes?amount=${amount}`, headers, body: '' }
}

function clientHeader(name: string, client: string): [string, string] {
  const family = isIP(client)
  if (family === 0 || client.includes('%')) throw new BadTrial('The client address is no IP address.')
  if (name !== 'forwarded') return [name, client]
  return ['Forwarded', family === 6 ? `for="[${client}]"` : `for=${client}`]
}

function send(
  url: string,
  { method, target, headers, body }: TrialRequest,
): Promise<{ answer: IncomingMessage; body: string }> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const sent = httpRequest({
      host: hostname.replace(/^\[|\]$/g, ''),
      port,
      method,
      path: target,
      headers: { ...Object.fromEntries(headers), 'User-Agent': 'quotegate-console' },
      agent: false,
      signal: AbortSignal.timeout(waitMostMs),
    })
    sent.on('error', reject)
    sent.on('response', (answer) => {
      const chunks: Buffer[] = []
      let bytes = 0
      answer.on('data', (chunk: Buffer) => {
        if (bytes < answerBytesMost) chunks.push(chunk)
        bytes += chunk.length
      })
      answer.on('error', reject)
      answer.on('end', () => resolve({ answer, body: Buffer.concat(chunks).toString('utf8') }))
    })
    sent.end(body)
  })
}

function curlOf(url: string, { method, target, headers, body }: TrialRequest): string {
  const parts = headers.map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`)
  if (method === 'POST') parts.push(`-d ${quoted(body)}`)
  return ['curl -i', ...parts, quoted(url + target)].join(' ')
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/** Half a character becomes U+FFFD, as it would on the wire. */
function text(value: unknown): string {
  return typeof value === 'string' ? Buffer.from(value.trim()).toString() : ''
}
