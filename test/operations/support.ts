import { systemClock, systemTimers } from '../../src/clock.ts'
import type { SettingValue } from '../../src/config/problems.ts'
import type { GatewayOverrides } from '../../src/gateway/types.ts'
import type { Counts } from '../../src/operations/counts.ts'
import type { SeenEvent } from '../../src/operations/schemas.ts'
import { type Answered, ask as rawAsk } from '../support/clients/quotes.ts'
import { gatewayWith } from '../support/gateways/between.ts'
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

/** The events of GET /status, the oldest first. */
export async function eventsOf(
  gateway: Pick<RunningGateway, 'operationsUrl'>,
): Promise<SeenEvent[]> {
  return (await statusOf(gateway)).events.reverse()
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
