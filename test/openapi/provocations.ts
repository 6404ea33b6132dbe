import { createServer, type ServerResponse } from 'node:http'
import express from 'express'
import { onTestFinished } from 'vitest'
import type { SettingValue } from '../../src/config/problems.ts'
import type { ProblemSlug } from '../../src/http/problem.ts'
import { startSandbox } from '../../src/sandbox/sandbox.ts'
import { act } from '../operations/support.ts'
import { post } from '../support/clients/orders.ts'
import { ask, asking, createTestClock } from '../support/clients/quotes.ts'
import {
  type ParsedAnswer,
  RawConnection,
  rawExchange,
} from '../support/clients/raw-connection.ts'
import {
  aSecond,
  gatewayTo,
  rawUpstream,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import { quotesThatExpireWaiting } from '../support/gateways/short-lived-quotes.ts'
import { listening } from '../support/machine/listening.ts'
import type { Call } from './support.ts'

type Settings = Record<string, SettingValue | undefined>

/** Sends one call under the circumstances in which a problem is to be expected. */
export type Provoke = (call: Call) => Promise<ParsedAnswer>

export function bytesOf({ method, target, headers, body }: Call): Buffer {
  return post(body === undefined ? '' : JSON.stringify(body), {
    method,
    path: target,
    headers,
  })
}

const send = (url: string, call: Call) => rawExchange(url, bytesOf(call))
const sentTo = (url: string): Provoke => {
  return (call) => send(url, call)
}
const withHeaders = (call: Call, ...lines: string[]): Call => ({
  ...call,
  headers: [...call.headers, ...lines],
})
const withQuery = (call: Call, query: string): Call => ({
  ...call,
  target: `${call.target}${call.target.includes('?') ? '&' : '?'}${query}`,
})

const withAmount = (call: Call, amount: number): Call => ({
  ...call,
  target: call.target.replace(/(?<=[?&]amount=)[^&]*/, String(amount)),
})

/** For another amount, so that what is asked for here says nothing of the orders there. */
const apart = (call: Call): Call => ({
  ...withAmount(call, 7),
  body: call.body && { ...call.body, fromAmount: 7, quoteId: undefined },
})

/** Both upstreams and a receiver of webhooks; the price makes the documented quote. */
export async function sandboxStage(settings: Settings = {}) {
  const clock = createTestClock()
  const sandbox = await startSandbox({ clock, prices: { ETH_USDC: 2896.45 } })
  onTestFinished(() => sandbox.close())
  const receiver = await recordingUpstream()
  const all = { WEBHOOKS_BASE_URL: receiver.url, ...settings }
  const gateway = await gatewayTo(sandbox.url, all, { clock })
  return { clock, sandbox, gateway, url: gateway.url }
}

const asItIs = (call: Call) => call

/** The call, changed, at a gateway where nothing else is wrong. */
function changed(
  change: (call: Call) => Call,
  settings?: Settings,
): () => Promise<Provoke> {
  return async () => {
    const { url } = await sandboxStage(settings)
    return (call) => send(url, change(call))
  }
}

/** A gateway with all three upstreams at one address. */
async function allTo(upstreamUrl: string, settings: Settings = {}): Promise<string> {
  const all = { WEBHOOKS_BASE_URL: upstreamUrl, retries: 0, ...settings }
  return (await gatewayTo(upstreamUrl, all)).url
}

function beforeUpstream(
  onRequest: Parameters<typeof rawUpstream>[0],
  settings?: Settings,
) {
  return async () => sentTo(await allTo((await rawUpstream(onRequest)).url, settings))
}

/** A place where nothing listens. */
async function nowhere(): Promise<string> {
  const upstream = await recordingUpstream()
  await upstream.close()
  return upstream.url
}

const ofEachUpstream = ['/v3/assets', '/checkouts', '/webhooks']

/** What brings about each problem, if the call is one that may be answered so. */
export const provocations: Partial<Record<ProblemSlug, () => Promise<Provoke>>> = {
  'malformed-request': changed((call) => withHeaders(call, 'Host: another')),
  'bad-target': changed((call) => withQuery(call, 'x=#')),
  'target-too-long': changed((call) => withQuery(call, `x=${'a'.repeat(8_192)}`)),
  'expectation-failed': changed((call) => withHeaders(call, 'Expect: a-miracle')),
  'head-too-large': changed((call) =>
    withHeaders(call, ...Array<string>(200).fill('X-One: more')),
  ),
  'method-not-allowed': changed(asItIs),
  'not-found': changed(asItIs),
  'no-payments-upstream': changed(asItIs, { PAYMENTS_BASE_URL: undefined }),
  'no-webhooks-upstream': changed(asItIs, { WEBHOOKS_BASE_URL: undefined }),
  'loop-detected': changed((call) => withHeaders(call, 'Via: 1.1 quotegate')),
  'app-name-missing': changed((call) => ({
    ...call,
    headers: call.headers.filter((line) => !line.startsWith('App-Name:')),
  })),
  'bad-amount': changed((call) => ({
    ...call,
    target: call.target.replace(/\?amount=.*/, ''),
  })),
  // A fixed order has a limit only where it has a key.
  'order-too-large': changed((call) => ({
    ...withHeaders(call, 'Idempotency-Key: large'),
    body: call.body && { ...call.body, more: 'a'.repeat(70_000) },
  })),
  'content-coding': changed((call) =>
    call.body ? withHeaders(call, 'Content-Encoding: gzip') : call,
  ),
  'bad-order': changed((call) =>
    withHeaders(call, 'Quotegate-Quote: one', 'Quotegate-Quote: two'),
  ),
  async 'quote-expired'() {
    const { clock, url } = await sandboxStage()
    await asking(url, '0.1', ['App-Name', 'demo'])
    clock.advance(31_000)
    return (call) =>
      send(
        url,
        call.body ? { ...call, body: { ...call.body, quoteId: undefined } } : apart(call),
      )
  },
  'quote-unknown': changed((call) => (call.body ? apart(call) : call), {
    ORDER_UNKNOWN_QUOTE: 'refuse',
  }),
  async 'float-order-required'() {
    const { url } = await sandboxStage()
    const { body } = await asking(url, '0.1', ['App-Name', 'demo'])
    return (call) =>
      send(url, {
        ...call,
        body: call.body && { ...call.body, quoteId: JSON.parse(body).id },
      })
  },
  async 'rate-limited'() {
    const { url } = await sandboxStage({ RATE_LIMIT_PER_MINUTE: 1 })
    // Each application has a limit of its own, also the one without a name.
    for (const headers of [['App-Name', 'demo'], []])
      await ask(url, { path: '/v3/assets', headers })
    return sentTo(url)
  },
  async 'provider-limit'() {
    const upstream = await recordingUpstream((_request, response) => {
      response.writeHead(429, ['Retry-After', '30']).end()
    })
    const { url } = await gatewayTo(upstream.url)
    await asking(url, '0.1', ['App-Name', 'demo'])
    return sentTo(url)
  },
  async 'quote-expired-waiting'() {
    const { url, lifeMs } = await quotesThatExpireWaiting()
    let before: Promise<unknown> = Promise.resolve()
    // One at a time, because each look at the clock of that gateway costs time.
    return (call) => {
      const answer = before.then(() => send(url, withAmount(call, lifeMs)))
      before = answer
      return answer
    }
  },
  async 'body-already-read'() {
    const { gateway } = await sandboxStage()
    const parent = express().disable('x-powered-by').use(express.json()).use(gateway.app)
    return sentTo((await listening(createServer(parent))).url)
  },
  async 'request-timeout'() {
    const { url } = await sandboxStage({ headTimeoutMs: 100 })
    return ({ method, target }) =>
      rawExchange(url, `${method} ${target} HTTP/1.1\r\nHost: g\r\n`)
  },
  async 'too-many-connections'() {
    const { url } = await sandboxStage({ CLIENT_CONNECTIONS: 1 })
    const first = new RawConnection(url, 'GET /v3/assets HTTP/1.1\r\nHost: g\r\n\r\n')
    await first.answer()
    return sentTo(url)
  },
  'upstream-unreachable': async () => sentTo(await allTo(await nowhere())),
  'upstream-reset': beforeUpstream((socket) => socket.destroy()),
  'upstream-invalid': beforeUpstream((socket) => socket.end('garbage\r\n\r\n')),
  'upstream-timeout': beforeUpstream(() => {}, { UPSTREAM_HEADERS_TIMEOUT_MS: 100 }),
  async saturated() {
    const upstream = await rawUpstream(() => {})
    const url = await allTo(upstream.url, { UPSTREAM_CONNECTIONS: 1, queue: 0 })
    for (const target of ofEachUpstream) {
      new RawConnection(url).write(`GET ${target} HTTP/1.1\r\nHost: g\r\n\r\n`)
    }
    await until(
      () => upstream.received.length === ofEachUpstream.length,
      'each upstream has its one request',
    )
    return sentTo(url)
  },
  async held() {
    const { gateway, url } = await sandboxStage()
    await act(gateway, 'hold', { quotes: true, reason: 'a wrong price', minutes: 5 })
    return sentTo(url)
  },
  'bad-idempotency-key': changed((call) =>
    withHeaders(call, 'Idempotency-Key: two words'),
  ),
  async 'order-in-progress'() {
    const waiting: ServerResponse[] = []
    const provoke = await twiceWithOneKey((response) => waiting.push(response))
    onTestFinished(() => {
      for (const response of waiting) response.end()
    })
    return provoke
  },
  'order-outcome-unknown': () => twiceWithOneKey((response) => response.destroy()),
  'order-answered': () => twiceWithOneKey((response) => response.end('x'.repeat(70_000))),
  'idempotency-key-reused': () =>
    twiceWithOneKey(
      (response) => response.end('{}'),
      (call) => withQuery(call, 'another=1'),
    ),
  async 'breaker-open'() {
    const url = await allTo(await nowhere(), {
      breakerFailures: 1,
      breakerOpenMs: 600_000,
    })
    for (const path of ofEachUpstream) await ask(url, { path })
    await aSecond()
    for (const path of ofEachUpstream) await ask(url, { path })
    return sentTo(url)
  },
}

let keys = 0

/** Sends each call twice with one key; the second is the answer. `take` answers orders, all else is answered `ok`. */
async function twiceWithOneKey(
  take: (response: ServerResponse) => void,
  again = (call: Call): Call => call,
): Promise<Provoke> {
  const held = new Set<string>()
  const upstream = await recordingUpstream(({ headers, method, target }, response) => {
    if (method !== 'POST' || !target.startsWith('/v3/orders'))
      return void response.end('ok')
    held.add(String(headers['idempotency-key']))
    take(response)
  })
  const url = await allTo(upstream.url)
  return async (call) => {
    keys += 1
    const key = `key-${keys}`
    const keyed = withHeaders(call, `Idempotency-Key: ${key}`)
    const first = send(url, keyed).catch(() => {})
    // An order that is on its way is answered when the gateway ends.
    let isAnswered = false
    void first.then(() => {
      isAnswered = true
    })
    await until(() => isAnswered || held.has(key), 'the first is answered, or on its way')
    return send(url, again(keyed))
  }
}

/** Those that no test can bring about, with the reason. */
export const notProvoked: Partial<Record<ProblemSlug, string>> = {
  'internal-error': 'a fault of the gateway that is not known: a known one is fixed',
}
