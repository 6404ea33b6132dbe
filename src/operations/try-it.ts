import { once } from 'node:events'
import {
  request as httpRequest,
  type IncomingMessage,
  validateHeaderValue,
} from 'node:http'
import { isIP } from 'node:net'
import {
  blocksHold,
  formatForwarded,
  namedBlocks,
  parseAddressBlock,
} from '../http/ip-address.ts'
import { Refused } from './access.ts'
import type { OperationsParts } from './parts.ts'
import type { Status } from './schemas.ts'

type TrafficAddress = Status['traffic']

/** A trial comes from the network, so no field is trusted. */
type Trial = Readonly<Record<string, unknown>>

interface TrialRequest {
  target: string
  headers: [string, string][]
  /** For orders only. */
  body?: string
}

const maxAnswerLength = 262_144
const timeoutMs = 40_000

const badTrial = (message: string) => new Refused(400, message)

/** Where trials go, and whether a user's address in them is trusted there: trials come from that same address. */
export function trafficOf({
  config,
  trafficUrl,
}: Pick<OperationsParts, 'config' | 'trafficUrl'>): TrafficAddress {
  const { ipHeader: clientIpHeader, trustProxy } = config.client
  const url = trafficUrl() ?? null
  const trusted = trustProxy.flatMap(
    (entry) => namedBlocks.get(entry.toLowerCase()) ?? entry,
  )
  const blocks = trusted.map(parseAddressBlock).filter((block) => 'prefix' in block)
  const ownAddress = url === null ? '' : new URL(url).hostname.replace(/[[\]]/g, '')
  return { url, clientIpHeader, loopbackTrusted: blocksHold(blocks, ownAddress) }
}

/** Sends a trial to our own traffic listener, like any caller. */
export async function tryIt(trial: Trial, { url, ...traffic }: TrafficAddress) {
  if (url === null) throw badTrial('The traffic listener is not open.')
  const request = readTrial(trial, traffic)
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

function readTrial(
  trial: Trial,
  { clientIpHeader, loopbackTrusted }: Omit<TrafficAddress, 'url'>,
): TrialRequest {
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
    // Otherwise the console would count as a proxy missing in TRUST_PROXY.
    if (!loopbackTrusted)
      throw badTrial(
        "Without TRUST_PROXY=loopback the gateway ignores a user's address from here.",
      )
    if (isIP(client) === 0 || client.includes('%'))
      throw badTrial("The user's address is not an IP address.")
    const isForwarded = clientIpHeader === 'forwarded'
    headers.push(
      isForwarded ? ['Forwarded', formatForwarded(client)] : [clientIpHeader, client],
    )
  }
  if (trial.kind === 'order') {
    headers.push(['Content-Type', 'application/json'])
    return { target: '/v3/orders/float', headers, body: text(trial.body) }
  }
  if (trial.kind !== 'quote') throw badTrial('A trial is a quote or an order.')
  const pair = encodeURIComponent(text(trial.pair))
  const amount = encodeURIComponent(text(trial.amount))
  if (pair === '' || pair === '.' || pair === '..')
    throw badTrial('A quote needs a pair.')
  return { target: `/v3/pairs/${pair}/quotes?amount=${amount}`, headers }
}

async function send(url: string, { target, headers, body }: TrialRequest) {
  const sent = httpRequest(url + target, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { ...Object.fromEntries(headers), 'User-Agent': 'quotegate-console' },
    agent: false,
    signal: AbortSignal.timeout(timeoutMs),
  }).end(body)
  // Without a listener, an error after the answer's head would end the process.
  sent.on('error', () => {})
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of answer.setEncoding('utf8'))
    if (text.length < maxAnswerLength) text += chunk
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

/** A lone surrogate becomes U+FFFD, as on the wire. */
function text(value: unknown): string {
  return typeof value === 'string' ? Buffer.from(value.trim()).toString() : ''
}
