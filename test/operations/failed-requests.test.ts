import { expect, test } from 'vitest'
import { quoteBody } from '../support/clients/quotes.ts'
import { gatewayTo, rawUpstream, recordingUpstream, until } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import { ask, gatewayWith, look, production, quote } from './support.ts'

interface Failure {
  number: number
  at: number
  path: string
  route: string
  status: number
  source: string
  application: string
  client: string
  durationMs: number
  queueMs: number | null
  upstreamMs: number | null
  transferMs: number | null
  ownMs: number | null
  requestId: string
  why: string
}

async function failuresOf({ operationsUrl }: RunningGateway): Promise<Failure[]> {
  return JSON.parse((await ask(`${operationsUrl}/status`)).body).lastFailures
}

async function lastFailureOf(gateway: RunningGateway): Promise<Failure> {
  await expect.poll(async () => (await failuresOf(gateway)).length).toBeGreaterThan(0)
  const [last] = await failuresOf(gateway)
  if (last === undefined) throw new Error('there is none')
  return last
}

test('the last fifty failed requests are kept while no console is open, the newest first', async () => {
  const gateway = await gatewayWith()
  await quote(gateway)
  for (let number = 1; number <= 53; number += 1) await fetch(`${gateway.url}/nothing-${number}`)
  await expect.poll(async () => (await failuresOf(gateway)).at(0)?.path).toBe('/nothing-53')
  const failures = await failuresOf(gateway)
  expect(failures.map(({ path }) => path)).toEqual(
    Array.from({ length: 50 }, (_, index) => `/nothing-${53 - index}`),
  )
  expect(new Set(failures.map(({ number }) => number)).size).toBe(50)
})

test('a console that opens receives the requests that failed before, each once', async () => {
  const gateway = await gatewayWith()
  await fetch(`${gateway.url}/before`)
  const first = await look(gateway.operationsUrl)
  await until(() => first.frames.length >= 1, 'the first frame')
  expect(first.frames[0]?.data).toMatchObject({ requests: [], failures: [{ path: '/before', status: 404 }] })
  await fetch(`${gateway.url}/after`)
  const requestsOf = ({ frames }: typeof first) => frames.flatMap(({ data }) => data.requests as Failure[])
  await until(() => requestsOf(first).length > 0, 'the tick')
  const second = await look(gateway.operationsUrl)
  await until(() => second.frames.length >= 1, 'the first frame of the second')
  const requests = requestsOf({ ...second, frames: second.frames.slice(0, 1) })
  const failures = second.frames[0]?.data.failures as Failure[]
  expect(failures.map(({ path }) => path)).toEqual(['/after', '/before'])
  // The page leaves out by its number what is in both.
  expect(requests.map(({ number }) => number)).toEqual([failures[0]?.number])
  await Promise.all([first.leave(), second.leave()])
})

test.each([
  { what: 'the provider answers 500', status: 500, source: 'provider' },
  { what: 'the provider answers 429', status: 429, source: 'provider' },
  { what: 'the provider answers 422', status: 422, source: 'client' },
])('the error is of the $source where $what', async ({ status, source }) => {
  const upstream = await recordingUpstream((_request, response) => response.writeHead(status).end())
  const gateway = await gatewayTo(upstream.url)
  await fetch(`${gateway.url}/v3/assets`)
  expect(await lastFailureOf(gateway)).toMatchObject({ status, source, route: 'swap' })
})

test('the error is of the provider where it refuses connections, of the client where its amount is wrong', async () => {
  const gateway = await gatewayWith({ SWAP_BASE_URL: production.SWAP_BASE_URL })
  await quote(gateway, { application: 'web' })
  expect(await lastFailureOf(gateway)).toMatchObject({
    status: 502,
    source: 'provider',
    route: 'quote',
    application: 'web',
    client: '127.0.0.x',
    why: expect.stringContaining('upstream-unreachable'),
    requestId: expect.any(String),
  })
  await quote(gateway, { amount: '0' })
  await expect.poll(async () => (await failuresOf(gateway)).length).toBe(2)
  expect((await failuresOf(gateway))[0]).toMatchObject({ status: 400, source: 'client' })
})

test('the error is of the gateway where a base URL leads back to it', async () => {
  const inner = await gatewayWith()
  const outer = await gatewayTo(inner.url)
  await fetch(`${outer.url}/v3/assets`, { headers: { Via: '1.1 quotegate' } })
  expect(await lastFailureOf(outer)).toMatchObject({ status: 508, source: 'gateway' })
})

test('a request says where its time went: in the queue for a connection, at the upstream, in the gateway', async () => {
  const slowMs = 400
  const upstream = await recordingUpstream((_request, response) => {
    setTimeout(() => response.writeHead(500).end(), slowMs)
  })
  const gateway = await gatewayTo(upstream.url, { UPSTREAM_CONNECTIONS: 1 })
  await Promise.all(['1', '2'].map((amount) => quote(gateway, { amount }).catch(() => {})))
  await expect.poll(async () => (await failuresOf(gateway)).length).toBe(2)
  const [second, first] = await failuresOf(gateway)
  expect(first?.upstreamMs).toBeGreaterThanOrEqual(slowMs - 5)
  expect(first?.queueMs).toBeLessThan(first?.upstreamMs ?? 0)
  expect(second?.queueMs).toBeGreaterThanOrEqual(slowMs / 2)
  expect(second?.upstreamMs).toBeGreaterThanOrEqual(slowMs - 5)
  for (const { durationMs, queueMs, upstreamMs, transferMs, ownMs } of [first, second] as Failure[]) {
    expect(transferMs).toBeLessThan(upstreamMs ?? 0)
    const parts = [queueMs, upstreamMs, transferMs, ownMs].map((part) => part ?? 0)
    expect(parts.reduce((sum, part) => sum + part)).toBeCloseTo(durationMs, 1)
  }
})

test("the time of a request is the upstream's if the upstream hangs or answers slowly", async () => {
  const hanging = await rawUpstream(() => {})
  const gateway = await gatewayTo(hanging.url, { UPSTREAM_TOTAL_TIMEOUT_MS: 300 })
  await quote(gateway)
  const timedOut = await lastFailureOf(gateway)
  expect(timedOut).toMatchObject({ status: 504, source: 'provider', transferMs: null })
  expect(timedOut.upstreamMs).toBeGreaterThan(timedOut.durationMs / 2)

  const slow = await recordingUpstream((_request, response) => {
    response.writeHead(500).write('first')
    setTimeout(() => response.end('last'), 400)
  })
  const streaming = await gatewayTo(slow.url)
  await (await fetch(`${streaming.url}/v3/assets`)).text()
  const streamed = await lastFailureOf(streaming)
  expect(streamed.transferMs).toBeGreaterThan(200)
  expect(streamed.ownMs).toBeLessThan(streamed.durationMs / 2)
})

test("a request that waited for another request's call shows no parts of its time", async () => {
  const upstream = await recordingUpstream((_request, response) => {
    setTimeout(() => response.writeHead(200).end(quoteBody()), 300)
  })
  const gateway = await gatewayTo(upstream.url)
  const viewer = await look(gateway.operationsUrl)
  await Promise.all([quote(gateway), quote(gateway)])
  const requests = () => viewer.frames.flatMap(({ data }) => data.requests as Failure[])
  await until(() => requests().length === 2, 'both')
  const times = requests().map(({ queueMs, upstreamMs, ownMs }) => [queueMs, upstreamMs, ownMs])
  expect(times).toContainEqual([null, null, null])
  expect(times).toContainEqual([expect.any(Number), expect.any(Number), expect.any(Number)])
  await viewer.leave()
})

test('failed requests are shown with full rights only', async () => {
  const gateway = await gatewayWith({ ...production, ADMIN_TOKEN: 'correct-horse-battery' })
  await quote(gateway, { pair: 'SECRET_PAIR', application: 'secret-application' })
  const asked = async (headers: Record<string, string>) =>
    (await ask(`${gateway.operationsUrl}/status`, { headers })).body
  const full = { Authorization: 'Bearer correct-horse-battery' }
  await expect.poll(() => asked(full)).toContain('SECRET_PAIR')
  const named = { headers: { 'X-Request-Id': 'secret-request' } }
  await (await fetch(`${gateway.url}/v3/assets`, named)).arrayBuffer()
  await expect.poll(() => asked(full)).toContain('secret-request')
  const reading = await asked({})
  expect(JSON.parse(reading)).toMatchObject({
    access: 'reading',
    lastFailures: [],
    slowest: { requestId: '' },
  })
  expect(reading.toLowerCase()).not.toContain('secret')
  const viewer = await look(gateway.operationsUrl)
  await until(() => viewer.frames.length >= 2, 'a tick')
  expect(viewer.frames[0]?.data).toMatchObject({ failures: [] })
  expect(JSON.stringify(viewer.frames).toLowerCase()).not.toContain('secret')
  await viewer.leave()
})
