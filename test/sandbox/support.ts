import { afterEach } from 'vitest'
import type { GatewayClock } from '../../src/clock.ts'
import { type Sandbox, type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox.ts'

export const startMs = 1_763_651_800_000

export class ManualClock implements GatewayClock {
  #nowMs = startMs

  nowMs(): number {
    return this.#nowMs
  }

  advance(byMs: number): void {
    this.#nowMs += byMs
  }
}

export interface Answer {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of many shapes.
  body: any
}

const started: Sandbox[] = []
afterEach(async () => {
  await Promise.all(started.splice(0).map((sandbox) => sandbox.close()))
})

export async function startedSandbox(options?: SandboxOptions): Promise<Sandbox> {
  const sandbox = await startSandbox(options)
  started.push(sandbox)
  return sandbox
}

export async function ask(
  sandbox: Sandbox,
  method: string,
  target: string,
  { headers = {}, body }: { headers?: Record<string, string>; body?: unknown } = {},
): Promise<Answer> {
  const response = await fetch(sandbox.url + target, {
    method,
    headers,
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

export function askForQuote(
  sandbox: Sandbox,
  target = '/v3/pairs/ETH_USDC/quotes?amount=0.1',
): Promise<Answer> {
  return ask(sandbox, 'GET', target, { headers: { 'App-Name': 'tests' } })
}

export function pay(sandbox: Sandbox, method: string, target: string, body?: unknown): Promise<Answer> {
  return ask(sandbox, method, target, {
    headers: { Authorization: 'Bearer any', 'Content-Type': 'application/json' },
    body,
  })
}

/** A POST with an `X-Signature`. */
export function paySigned(sandbox: Sandbox, target: string, body?: unknown): Promise<Answer> {
  return ask(sandbox, 'POST', target, {
    headers: {
      Authorization: 'Bearer sk_test_1',
      'X-Signature': '0xsigned',
      'Content-Type': 'application/json',
    },
    body,
  })
}
