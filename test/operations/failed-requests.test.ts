import { expect, test } from 'vitest'
import { quoteBody } from '../support/clients/quotes.ts'
import {
  gatewayTo,
  gatewayWith,
  rawUpstream,
  recordedGateway,
  until,
} from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import { helloOf, look, quote, statusOf } from './support.ts'

type Part = 'queueMs' | 'upstreamMs' | 'transferMs' | 'ownMs'
type Failure = Record<Part, number | null> & {
  number: number
  path: string
  durationMs: number
}

/** The newest first, once there are so many. */
async function failuresOf(gateway: RunningGateway, count: number): Promise<Failure[]> {
  const failures = async () => (await statusOf(gateway)).lastFailures as Failure[]
  await expect.poll(async () => (await failures()).length).toBe(count)
  return failures()
}

test('the last fifty failed requests are kept while no console is open, the newest first', async () => {
  const gateway = await gatewayWith()
  await quote(gateway)
  for (let number = 1; number <= 53; number += 1)
    await fetch(`${gateway.url}/nothing-${number}`)
  await expect
    .poll(async () => (await failuresOf(gateway, 50)).at(0)?.path)
    .toBe('/nothing-53')
  const failures = await failuresOf(gateway, 50)
  const lastFifty = Array.from({ length: 50 }, (_, index) => `/nothing-${53 - index}`)
  expect(failures.map(({ path }) => path)).toEqual(lastFifty)
  expect(new Set(failures.map(({ number }) => number)).size).toBe(50)
})

test('a console that opens receives the requests that failed before, each once', async () => {
  const gateway = await gatewayWith()
  await fetch(`${gateway.url}/before`)
  const first = await look(gateway.operationsUrl)
  const hello = { requests: [], failures: [{ path: '/before', status: 404 }] }
  expect(await helloOf(first)).toMatchObject(hello)
  await fetch(`${gateway.url}/after`)
  await until(
    () => first.frames.some(({ data }) => (data.requests as object[]).length > 0),
    'the tick',
  )
  const second = await look(gateway.operationsUrl)
  const { failures, requests } = (await helloOf(second)) as Record<string, Failure[]>
  expect(failures?.map(({ path }) => path)).toEqual(['/after', '/before'])
  // The page leaves out by its number what is in both.
  expect(requests?.map(({ number }) => number)).toEqual([failures?.[0]?.number])
  await Promise.all([first.leave(), second.leave()])
})

test('an error says whose it is', async () => {
  const { upstream, gateway } = await recordedGateway({}, ({ target }, response) => {
    response.writeHead(Number(target.slice(-3))).end()
  })
  for (const status of [500, 429, 422])
    await fetch(`${gateway.url}/v3/assets?status=${status}`)
  await quote(gateway, { amount: '0' })
  await fetch(`${gateway.url}/v3/assets`, { headers: { Via: '1.1 quotegate' } })
  await upstream.close()
  await quote(gateway, { application: 'web' })
  expect(await failuresOf(gateway, 6)).toMatchObject([
    {
      status: 502,
      source: 'provider',
      route: 'quote',
      application: 'web',
      client: '127.0.0.x',
      why: expect.stringContaining('upstream-unreachable'),
      requestId: expect.any(String),
    },
    { status: 508, source: 'gateway' },
    { status: 400, source: 'client', route: 'quote' },
    { status: 422, source: 'client', route: 'swap' },
    { status: 429, source: 'provider' },
    { status: 500, source: 'provider' },
  ])
})

test('a request says where its time went: in the queue for a connection, at the upstream, in the gateway', async () => {
  const slowMs = 300
  const { gateway } = await recordedGateway(
    { UPSTREAM_CONNECTIONS: 1 },
    (_request, response) => {
      setTimeout(() => response.writeHead(500).end(), slowMs)
    },
  )
  await Promise.all(
    ['1', '2'].map((amount) => quote(gateway, { amount }).catch(() => {})),
  )
  const [second, first] = await failuresOf(gateway, 2)
  expect(first?.upstreamMs).toBeGreaterThanOrEqual(slowMs - 5)
  expect(first?.queueMs).toBeLessThan(first?.upstreamMs ?? 0)
  expect(second?.queueMs).toBeGreaterThanOrEqual(slowMs / 2)
  expect(second?.upstreamMs).toBeGreaterThanOrEqual(slowMs - 5)
  for (const { durationMs, queueMs, upstreamMs, transferMs, ownMs } of [
    first,
    second,
  ] as Failure[]) {
    expect(transferMs).toBeLessThan(upstreamMs ?? 0)
    const parts = [queueMs, upstreamMs, transferMs, ownMs].map((part) => part ?? 0)
    expect(parts.reduce((sum, part) => sum + part)).toBeCloseTo(durationMs, 1)
  }
})

test("the time of a request is the upstream's if the upstream hangs", async () => {
  const hanging = await rawUpstream(() => {})
  const gateway = await gatewayTo(hanging.url, { UPSTREAM_TOTAL_TIMEOUT_MS: 300 })
  await quote(gateway)
  const [timedOut] = await failuresOf(gateway, 1)
  expect(timedOut).toMatchObject({ status: 504, source: 'provider', transferMs: null })
  expect(timedOut?.upstreamMs).toBeGreaterThan((timedOut?.durationMs ?? 0) / 2)
})

test("a request that waited for another request's call shows no parts of its time", async () => {
  const { gateway } = await recordedGateway({}, (_request, response) => {
    setTimeout(() => response.writeHead(200).end(quoteBody()), 300)
  })
  const viewer = await look(gateway.operationsUrl)
  await Promise.all([quote(gateway), quote(gateway)])
  const requests = () => viewer.frames.flatMap(({ data }) => data.requests as Failure[])
  await until(() => requests().length === 2, 'both')
  const times = requests().map(({ queueMs, upstreamMs, ownMs }) => [
    queueMs,
    upstreamMs,
    ownMs,
  ])
  expect(times).toContainEqual([null, null, null])
  expect(times).toContainEqual([
    expect.any(Number),
    expect.any(Number),
    expect.any(Number),
  ])
  await viewer.leave()
})
