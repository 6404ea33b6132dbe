import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage, validateHeaderValue } from 'node:http'
import { isIP } from 'node:net'
import { formatForwarded } from '../http/ip-address.ts'
import { Refused } from './access.ts'

/** A trial request from the console. It comes from the network, so no field is trusted. */
type Trial = Readonly<Record<string, unknown>>

interface TrialRequest {
  target: string
  headers: [string, string][]
  /** Of an order. */
  body?: string
}

const maxAnswerLength = 262_144
const timeoutMs = 40_000

const badTrial = (message: string) => new Refused(400, message)

/**
 * Sends the trial request to the gateway's own traffic listener, as any client would. `url`: where that can be reached
 * from this machine; undefined before it listens.
 */
export async function tryIt(trial: Trial, url: string | undefined, clientIpHeader: string) {
  if (url === undefined) throw badTrial('The traffic listener is not open.')
  const request = readTrial(trial, clientIpHeader)
  const startedAtMs = performance.now()
  const { answer, body } = await send(url, request).catch((error: Error) => {
    throw new Refused(502, error.message)
  })
  const pairs = answer.rawHeaders.flatMap((name, index) =>
    index % 2 === 0 ? [[name, answer.rawHeaders[index + 1] ?? ''] as const] : [],
  )
  return {
    curl: curlCommand(url, request),
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
  try {
    validateHeaderValue('App-Name', application)
  } catch {
    throw badTrial('App-Name has characters that no header may have.')
  }
  if (application !== '') headers.push(['App-Name', application])
  const client = text(trial.client)
  if (client !== '') {
    if (isIP(client) === 0 || client.includes('%')) throw badTrial('The client address is not an IP address.')
    const isForwarded = clientIpHeader === 'forwarded'
    headers.push(isForwarded ? ['Forwarded', formatForwarded(client)] : [clientIpHeader, client])
  }
  if (trial.kind === 'order') {
    headers.push(['Content-Type', 'application/json'])
    return { target: '/v3/orders/float', headers, body: text(trial.body) }
  }
  if (trial.kind !== 'quote') throw badTrial('A trial is a quote or an order.')
  const pair = encodeURIComponent(text(trial.pair))
  const amount = encodeURIComponent(text(trial.amount))
  if (pair === '' || pair === '.' || pair === '..') throw badTrial('A quote needs a pair.')
  return { target: `/v3/pairs/${pair}/quotes?amount=${amount}`, headers }
}

async function send(url: string, { target, headers, body }: TrialRequest) {
  const sent = httpRequest(url + target, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { ...Object.fromEntries(headers), 'User-Agent': 'quotegate-console' },
    agent: false,
    signal: AbortSignal.timeout(timeoutMs),
  }).end(body)
  // Without a listener of its own, an error after the head of the answer would end the process.
  sent.on('error', () => {})
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of answer.setEncoding('utf8')) if (text.length < maxAnswerLength) text += chunk
  return { answer, body: text }
}

function curlCommand(url: string, { target, headers, body }: TrialRequest): string {
  const parts = headers.map(([name, value]) => `-H ${shellQuoted(`${name}: ${value}`)}`)
  if (body !== undefined) parts.push(`-d ${shellQuoted(body)}`)
  return ['curl -i', ...parts, shellQuoted(url + target)].join(' ')
}

function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/** A lone surrogate becomes U+FFFD, as it would on the wire. */
function text(value: unknown): string {
  return typeof value === 'string' ? Buffer.from(value.trim()).toString() : ''
}
