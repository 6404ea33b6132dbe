import { Agent, type IncomingHttpHeaders, request, type ServerResponse } from 'node:http'
import { onTestFinished } from 'vitest'
import { systemTimers } from '../../../src/clock.ts'
import type { Gateway } from '../../../src/gateway/types.ts'
import type { End } from '../../../src/quotes/ends.ts'

export const quotePath = '/v3/pairs/ETH_USDC/quotes'

let given = 0

/** A quote as documented, with an id of its own, that lives for 30 s. */
export function quoteBody(changes: Record<string, unknown> = {}): string {
  given += 1
  return JSON.stringify({
    fromAmount: { assetId: 'ETH', value: '0.1' },
    id: `quote-${given}`,
    pairId: 'ETH_USDC',
    toAmount: { assetId: 'USDC', value: '289.645' },
    expiry: Date.now() + 30_000,
    ...changes,
  })
}

/** A body for 0.1 ETH becomes one for the amount that was asked for: a quote for another amount is not kept. */
export function forAskedAmount(body: string, target: string | undefined): string {
  const asked = /[?&]amount=([^&]+)/.exec(target ?? '')?.[1] ?? '0.1'
  const amount = (value: string) => JSON.stringify({ assetId: 'ETH', value })
  return body.replace(amount('0.1'), () => amount(decodeURIComponent(asked)))
}

/** Answers with a fresh quote, or the given body, for the amount that was asked for, and with exactly these headers besides the framing. */
export function giveQuote(
  response: ServerResponse,
  body: string | Buffer = quoteBody(),
  headers: readonly string[] = ['Content-Type', 'application/json'],
): void {
  response.sendDate = !headers.some(
    (name, index) => index % 2 === 0 && name.toLowerCase() === 'date',
  )
  // A string would take the head with it into UTF-8.
  const bytes =
    typeof body === 'string' ? Buffer.from(forAskedAmount(body, response.req.url)) : body
  response.writeHead(200, [...headers, 'Content-Length', String(bytes.length)])
  response.end(bytes)
}

export interface Answered {
  status: number
  headers: IncomingHttpHeaders
  rawHeaders: string[]
  body: string
  /** Our wall clock before the request was written. */
  sentAtMs: number
}

export interface Ask {
  path?: string
  method?: string
  /** Names and values in turn, `App-Name` among them unless told otherwise. */
  headers?: readonly string[]
  body?: string | Buffer
  agent?: Agent
  signal?: AbortSignal
}

/** One request of a caller, an `App-Name` in it. */
export function ask(url: string, options: Ask = {}): Promise<Answered> {
  const {
    path = `${quotePath}?amount=0.1`,
    method = 'GET',
    headers = ['App-Name', 'wallet'],
  } = options
  const { hostname, port } = new URL(url)
  const sentAtMs = Date.now()
  return new Promise((resolve, reject) => {
    const call = request(
      {
        hostname,
        port,
        path,
        method,
        headers: headers.includes('Host') ? headers : ['Host', 'gateway', ...headers],
        agent: options.agent ?? false,
        ...(options.signal ? { signal: options.signal } : {}),
      },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          const { statusCode: status = 0, headers: received, rawHeaders } = response
          const body = Buffer.concat(chunks).toString('latin1')
          resolve({ status, headers: received, rawHeaders, body, sentAtMs })
        })
      },
    )
    call.on('error', reject)
    call.end(options.body)
  })
}

export function asking(
  url: string,
  amount: string,
  headers?: readonly string[],
): Promise<Answered> {
  return ask(url, {
    path: `${quotePath}?amount=${amount}`,
    ...(headers ? { headers } : {}),
  })
}

export function keepAliveAgent(maxSockets: number): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets })
  onTestFinished(() => agent.destroy())
  return agent
}

/** One value of the metrics page. Each series is there from the start, so one that is missing has another name. */
export async function counted(
  gateway: Pick<Gateway, 'metrics'>,
  series: string,
): Promise<number> {
  const line = (await gateway.metrics())
    .split('\n')
    .find((text) => text.startsWith(`${series} `))
  if (line === undefined) throw new Error(`the metrics page lacks the series ${series}`)
  return Number(line.slice(series.length + 1))
}

export const lookups = (result: string) =>
  `quotegate_cache_lookups_total{result="${result}"}`
export const notKept = (reason: string, code = 'none') =>
  `quotegate_quotes_uncacheable_total{reason="${reason}",code="${code}"}`

/** Waits until the metrics say so. */
export async function untilCounted(
  gateway: Pick<Gateway, 'metrics'>,
  series: string,
  value: number,
): Promise<void> {
  const deadline = performance.now() + 60_000
  for (;;) {
    const now = await counted(gateway, series)
    if (now >= value) return
    if (performance.now() > deadline) throw new Error(`${series} is ${now}, not ${value}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** A wall clock that stands still until the test moves it. */
export function createTestClock(startMs = Date.UTC(2025, 10, 20, 15, 17, 21)) {
  let nowMs = startMs
  return {
    nowMs: () => nowMs,
    steadyMs: () => nowMs,
    timers: systemTimers,
    set: (ms: number) => {
      nowMs = ms
    },
    advance: (ms: number) => {
      nowMs += ms
    },
  }
}

/** Of a quote whose answer showed that the provider's clock and ours agree, for a test clock without a steady one. */
export function endAt(expiresAtMs: number): End {
  return { servedUntilMs: expiresAtMs, refusedFromMs: expiresAtMs, wallAheadMs: 0 }
}

/** A promise that the test settles. */
export function deferred<Value>() {
  let resolve: (value: Value) => void = () => {}
  let reject: (error: Error) => void = () => {}
  const promise = new Promise<Value>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { promise, resolve, reject }
}
