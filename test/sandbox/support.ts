import { onTestFinished } from 'vitest'
import { type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox.ts'

export const startMs = 1_763_651_800_000
export const isoAfter = (ms: number) => new Date(startMs + ms).toISOString()

export interface Answer {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of many shapes.
  body: any
}

/** A sandbox for one test, whose time stands still unless the test moves it on, and what can be asked of it. */
export async function stage(options: SandboxOptions = {}) {
  const clock = { ms: startMs, nowMs: () => clock.ms }
  const sandbox = await startSandbox({ clock, ...options })
  onTestFinished(() => sandbox.close())

  async function ask(method: string, target: string, headers = {}, body?: unknown): Promise<Answer> {
    const bytes = typeof body === 'string' ? body : JSON.stringify(body)
    const response = await fetch(sandbox.url + target, {
      method,
      headers,
      ...(body !== undefined && { body: bytes }),
    })
    return { status: response.status, headers: response.headers, body: await response.json() }
  }
  const json = { 'Content-Type': 'application/json' }
  return {
    sandbox,
    clock,
    ask,
    get: (target: string, headers = {}) => ask('GET', target, headers),
    quote: (query = 'amount=0.1', pair = 'ETH_USDC') =>
      ask('GET', `/v3/pairs/${pair}/quotes?${query}`, { 'App-Name': 'tests' }),
    order: (body: unknown, path = '/v3/orders/float') => ask('POST', path, {}, body),
    setFaults: (body: unknown) => ask('PUT', '/sandbox/faults', {}, body),
    pay: (method: string, target: string, body?: unknown) =>
      ask(method, target, { Authorization: 'Bearer any', ...json }, body),
    /** A POST with an `X-Signature`. */
    paySigned: (target: string, body?: unknown) =>
      ask('POST', target, { Authorization: 'Bearer sk_test_1', 'X-Signature': '0xsigned', ...json }, body),
  }
}
