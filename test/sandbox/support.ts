import { expect, onTestFinished } from 'vitest'
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

  async function ask(
    method: string,
    target: string,
    headers = {},
    body?: unknown,
  ): Promise<Answer> {
    const bytes = typeof body === 'string' ? body : JSON.stringify(body)
    const response = await fetch(sandbox.url + target, {
      method,
      headers,
      ...(body !== undefined && { body: bytes }),
    })
    return {
      status: response.status,
      headers: response.headers,
      body: await response.json(),
    }
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
      ask(
        'POST',
        target,
        { Authorization: 'Bearer sk_test_1', 'X-Signature': '0xsigned', ...json },
        body,
      ),
  }
}

export const none = undefined

/**
 * A request, its body (or `none`) and its answer: the status, and what is in it, or which error it is. `name`: what
 * the id in it is called from then on, `$name`. A number in place of a request: so many milliseconds pass.
 */
export type Step =
  | number
  | [
      request: string,
      body: unknown,
      status: number,
      answer?: object | string,
      name?: string,
    ]

/** Requests have a bearer key, and those that begin with `signed` an `X-Signature` too. */
export async function tell(steps: readonly Step[]): Promise<void> {
  const { clock, pay, paySigned } = await stage()
  const ids = new Map<string, string>()
  const named = <Value>(value: Value): Value =>
    JSON.parse(
      JSON.stringify(value).replace(
        /\$(\w+)/g,
        (_all, name) => ids.get(name) ?? 'unnamed',
      ),
    )
  for (const step of steps) {
    if (typeof step === 'number') {
      clock.ms += step
      continue
    }
    const [request, body, expected, answer, name] = step
    const [path = '', method = ''] = named(request).split(' ').reverse()
    const sent = typeof body === 'object' ? named(body) : body
    const answered = request.startsWith('signed')
      ? await paySigned(path, sent)
      : await pay(method, path, sent)
    expect(answered.status, request).toBe(expected)
    const { error, code } = answered.body
    if (typeof answer === 'string') expect(error?.type ?? code, request).toBe(answer)
    else if (answer !== undefined)
      expect(answered.body, request).toMatchObject(named(answer))
    if (name !== undefined) ids.set(name, answered.body.id)
  }
}
