import { systemClock, systemTimers } from '../../src/clock.ts'
import type { SettingValue } from '../../src/config/problems.ts'
import type { GatewayOverrides } from '../../src/gateway/types.ts'
import type { Counts } from '../../src/operations/history.ts'
import { type Answered, ask as rawAsk } from '../support/clients/quotes.ts'
import { gatewayWith, until } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'

/** One whose breakers count by a time that the test lets pass, so that nothing waits until they open. */
export async function gatewayInHaste(
  settings: Record<string, SettingValue | undefined>,
  overrides: Omit<GatewayOverrides, 'clock'> = {},
): Promise<RunningGateway & { pass(ms: number): void }> {
  let aheadMs = 0
  const timers = { ...systemTimers, steadyMs: () => systemTimers.steadyMs() + aheadMs }
  const gateway = await gatewayWith(settings, {
    ...overrides,
    clock: { ...systemClock, timers },
  })
  return {
    ...gateway,
    pass(ms) {
      aheadMs += ms
    },
  }
}

/** Between two failures: a breaker opens only if the first failure in a row is a second old. */
export const aSecond = 1_050

/** What production needs before it starts; nothing is sent there. */
export const production = { NODE_ENV: 'production', SWAP_BASE_URL: 'http://127.0.0.1:9' }

/** With any Host header, which fetch does not allow. */
export async function ask(
  url: string,
  {
    headers = {},
    ...rest
  }: { headers?: Record<string, string>; method?: string; body?: string } = {},
): Promise<Answered> {
  const all = Object.entries({ Host: 'localhost', ...headers }).flat()
  const { pathname, search } = new URL(url)
  const answer = await rawAsk(url, { ...rest, path: pathname + search, headers: all })
  return { ...answer, body: Buffer.from(answer.body, 'latin1').toString() }
}

/** What GET /status says. */
export async function statusOf(
  { operationsUrl }: Pick<RunningGateway, 'operationsUrl'>,
  headers: Record<string, string> = {},
) {
  return JSON.parse((await ask(`${operationsUrl}/status`, { headers })).body)
}

/** As the page itself would. */
export function act(
  { operationsUrl }: RunningGateway,
  action: string,
  body: object = {},
  headers: Record<string, string> = {},
): Promise<Answered> {
  return ask(`${operationsUrl}/actions/${action}`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'X-Quotegate-Console': '1',
      ...headers,
    },
    body: JSON.stringify(body),
  })
}

export async function quote(
  { url }: RunningGateway,
  { pair = 'ETH_USDC', amount = '0.1', application = 'demo', headers = {} } = {},
): Promise<{ id: string; expiry: number }> {
  const all = { 'App-Name': application, ...headers }
  const answer = await fetch(`${url}/v3/pairs/${pair}/quotes?amount=${amount}`, {
    headers: all,
  })
  return (await answer.json()) as { id: string; expiry: number }
}

/** `terms`: further ones. */
export async function floatOrder(
  { url }: RunningGateway,
  {
    pair = 'ETH_USDC',
    amount = '0.1',
    application = 'demo',
    terms = {},
    headers = {},
  } = {},
): Promise<number> {
  const answer = await fetch(`${url}/v3/orders/float`, {
    method: 'POST',
    headers: { 'App-Name': application, 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify({ pairId: pair, fromAmount: amount, ...terms }),
  })
  await answer.arrayBuffer()
  return answer.status
}

export interface Viewer {
  frames: { event: string; data: Record<string, unknown> }[]
  leave(): Promise<void>
}

/** What this viewer was sent in each of so many frames. */
export async function framesOf(
  { frames }: Viewer,
  count: number,
): Promise<Record<string, unknown>[]> {
  await until(() => frames.length >= count, `${count} frames`)
  return frames.map(({ data }) => data)
}

/** What it was greeted with. */
export async function helloOf(viewer: Viewer): Promise<Record<string, unknown>> {
  const [hello = {}] = await framesOf(viewer, 1)
  return hello
}

/** A viewer of the console. */
export async function look(
  operationsUrl: string,
  headers: Record<string, string> = {},
): Promise<Viewer> {
  const leaving = new AbortController()
  const answer = await fetch(`${operationsUrl}/stream`, {
    headers,
    signal: leaving.signal,
  })
  if (!answer.ok || answer.body === null)
    throw new Error(`the stream answered ${answer.status}`)
  const frames: Viewer['frames'] = []
  const reading = (async () => {
    let pending = ''
    for await (const chunk of answer.body ?? []) {
      const events = (pending + Buffer.from(chunk).toString('utf8')).split('\n\n')
      pending = events.pop() ?? ''
      for (const text of events) {
        const [first = '', second = ''] = text.split('\n')
        frames.push({ event: first.slice(7), data: JSON.parse(second.slice(6)) })
      }
    }
  })().catch(() => {})
  return {
    frames,
    async leave() {
      leaving.abort()
      await reading
    },
  }
}

/** What the history is given by a gateway without traffic. */
export const nothingCounted: Counts = {
  requests: 0,
  quotes: 0,
  hits: 0,
  saved: 0,
  errors: 0,
  refused: 0,
  expired: 0,
  orders: 0,
  matched: 0,
  unknown: 0,
  inFlight: 0,
}
