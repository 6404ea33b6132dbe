import { expect, test } from 'vitest'
import { completeClock } from '../../src/clock.ts'
import { Recent } from '../../src/operations/recent.ts'
import type { Exchange } from '../../src/server/exchange.ts'
import { quoteBody } from '../support/clients/quotes.ts'
import {
  gatewayTo,
  gatewayWith,
  rawUpstream,
  recordedGateway,
} from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import { quote, statusOf } from './support.ts'

type Part = 'queueMs' | 'upstreamMs' | 'transferMs' | 'ownMs'
type Seen = Partial<Record<Part, number>> & {
  number: number
  path: string
  status: number
  source?: string
  durationMs: number
}

const requestsOf = async (gateway: RunningGateway): Promise<Seen[]> =>
  (await statusOf(gateway)).lastRequests

/** Those that failed, the newest first, once there are so many. */
async function failuresOf(gateway: RunningGateway, count: number): Promise<Seen[]> {
  const failures = async () =>
    (await requestsOf(gateway)).filter(({ source }) => source !== undefined)
  await expect.poll(async () => (await failures()).length).toBe(count)
  return failures()
}

test('the last hundred requests are kept, the newest first, and of these fifty that failed longer than others', async () => {
  let atMs = 1_000
  const recent = new Recent(completeClock({ nowMs: () => atMs }))
  const answer = (status: number) => {
    // One a second, so that each is listed.
    atMs += 1_000
    recent.requestEnded(exchangeAt(`/${status}-${atMs / 1_000}`), status, 1)
  }
  for (let number = 1; number <= 60; number += 1) answer(500)
  for (let number = 1; number <= 300; number += 1) answer(200)
  const paths = recent.requests.map(({ path }) => path)
  const countDown = (status: number, from: number) =>
    Array.from({ length: 50 }, (_, index) => `/${status}-${from - index}`)
  expect(paths).toEqual([...countDown(200, 361), ...countDown(500, 61)])
  for (let number = 1; number <= 100; number += 1) answer(404)
  expect(recent.requests.every(({ status }) => status === 404)).toBe(true)
  expect(recent.requests).toHaveLength(100)
})

test('of a flood, sixty requests a second that failed are listed, and sixty others', () => {
  let atMs = 1_000
  const recent = new Recent(completeClock({ nowMs: () => atMs }))
  const flood = (status: number) => {
    for (let request = 0; request < 5_000; request += 1)
      recent.requestEnded(exchangeAt('/'), status, 1)
  }
  flood(200)
  expect(recent.requests).toHaveLength(60)
  flood(500)
  const failed = () => recent.requests.filter(({ status }) => status === 500).length
  expect([recent.requests.length, failed()]).toEqual([100, 60])
  atMs += 1_000
  flood(200)
  expect([recent.requests.length, failed()]).toEqual([100, 50])
})

function exchangeAt(target: string): Exchange {
  return {
    area: 'swap',
    id: 'r',
    reading: { area: 'swap', path: target, target },
    timeSpent: () => ({ queueMs: null, upstreamMs: null, transferMs: null, ownMs: 1 }),
    request: { rawHeaders: [], socket: {} },
  } as unknown as Exchange
}

test('a page that opens has the requests of before, also those that did not fail', async () => {
  const gateway = await gatewayWith()
  await fetch(`${gateway.url}/before`)
  await quote(gateway)
  await expect
    .poll(async () => (await requestsOf(gateway)).map(({ status }) => status))
    .toEqual([200, 404])
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
  ] as Seen[]) {
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
  expect(timedOut).toMatchObject({
    status: 504,
    source: 'provider',
  })
  expect(timedOut).not.toHaveProperty('transferMs')
  expect(timedOut?.upstreamMs).toBeGreaterThan((timedOut?.durationMs ?? 0) / 2)
})

test("a request that waited for another request's call shows no parts of its time", async () => {
  const { gateway } = await recordedGateway({}, (_request, response) => {
    setTimeout(() => response.writeHead(200).end(quoteBody()), 300)
  })
  await Promise.all([quote(gateway), quote(gateway)])
  await expect.poll(async () => (await requestsOf(gateway)).length).toBe(2)
  const times = (await requestsOf(gateway)).map(({ queueMs, upstreamMs, ownMs }) => [
    queueMs,
    upstreamMs,
    ownMs,
  ])
  expect(times).toContainEqual([undefined, undefined, undefined])
  expect(times).toContainEqual([
    expect.any(Number),
    expect.any(Number),
    expect.any(Number),
  ])
})
