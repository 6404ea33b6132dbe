import { expect, test } from 'vitest'
import { systemClock, systemTimers } from '../../src/clock.ts'
import type { Status } from '../../src/operations/schemas.ts'
import { createTestClock, giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { gatewayWith, recordingUpstream } from '../support/gateways/between.ts'
import { type RunningGateway, startGateway } from '../support/gateways/gateway.ts'
import { act, ask, floatOrder, quote, statusOf } from './support.ts'

/** As a page does, which has the answer of before. */
async function askAgain(
  { operationsUrl }: RunningGateway,
  etag: string,
): Promise<number> {
  const headers = { 'If-None-Match': etag, 'Cache-Control': 'no-cache' }
  return (await ask(`${operationsUrl}/status`, { headers })).status
}

async function tagOf({ operationsUrl }: RunningGateway): Promise<string> {
  return String((await ask(`${operationsUrl}/status`)).headers.etag)
}

test('/status is made once a second for all who ask, and never before it was asked for', async () => {
  const gateway = await gatewayWith()
  const startedAt = performance.now()
  const uptimes = new Set<number>()
  for (let round = 1; round <= 3; round += 1) {
    await quote(gateway, { amount: String(round) })
    const all = await Promise.all(Array.from({ length: 30 }, () => statusOf(gateway)))
    for (const { cache, uptimeMs } of all as Status[]) {
      expect(cache.entries).toBe(round)
      uptimes.add(uptimeMs)
    }
  }
  const seconds = (performance.now() - startedAt) / 1_000
  expect(uptimes.size).toBeLessThanOrEqual(seconds + 1)
})

test('who has the status already gets a 304, until something has changed', async () => {
  const gateway = await gatewayWith()
  await quote(gateway)
  // What was counted is in the slot that runs within a second.
  await expect.poll(async () => askAgain(gateway, await tagOf(gateway))).toBe(304)
  const tag = await tagOf(gateway)
  const [before] = ((await statusOf(gateway)) as Status).quotes
  const [after] = ((await statusOf(gateway)) as Status).quotes
  // Time has passed for it, which a page counts by itself.
  expect(after?.leftMs).toBeLessThan(before?.leftMs ?? 0)
  await quote(gateway, { amount: '7' })
  expect(await askAgain(gateway, tag)).toBe(200)
})

test('each level has its own status', async () => {
  const gateway = await gatewayWith({ ADMIN_TOKEN: 'correct-horse-battery' })
  await fetch(`${gateway.url}/nothing`)
  const headers = { Authorization: 'Bearer correct-horse-battery' }
  const [reading, full] = (await Promise.all([
    statusOf(gateway),
    statusOf(gateway, headers),
  ])) as Status[]
  expect(reading).toMatchObject({ access: 'reading', needsToken: true, lastRequests: [] })
  expect(full).toMatchObject({ access: 'full', lastRequests: [{ path: '/nothing' }] })
  const tag = await tagOf(gateway)
  const asFull = await ask(`${gateway.operationsUrl}/status`, {
    headers: { ...headers, 'If-None-Match': tag },
  })
  expect(asFull.status).toBe(200)
})

test('has no more than 64 KiB with 200 live quotes, 100 requests, 50 events and 15 minutes', async () => {
  let aheadMs = 0
  const steadyMs = () => performance.now() + aheadMs
  const timers = { ...systemTimers, steadyMs }
  const gateway = await gatewayWith({}, { clock: { ...systemClock, steadyMs, timers } })
  await act(gateway, 'faults', { quoteLifetimeMs: 120_000 })
  const amounts = Array.from({ length: 200 }, (_, index) =>
    (0.1 + index / 1_000).toFixed(3),
  )
  const application = 'wallet-ios'
  aheadMs = 900_000
  await expect
    .poll(async () => ((await statusOf(gateway)) as Status).sparklines.requests.length)
    .toBe(90)
  for (let number = 1; number <= 50; number += 1)
    await act(gateway, 'faults', { latencyMs: number / 50, errorRate: number / 1e6 })
  for (const amount of amounts) await quote(gateway, { amount, application })
  // At most 60 of a second are listed.
  await expect
    .poll(
      async () => {
        for (const amount of amounts.slice(0, 60))
          await quote(gateway, { amount, application })
        return ((await statusOf(gateway)) as Status).lastRequests.length
      },
      { timeout: 20_000 },
    )
    .toBe(100)
  const { body } = await ask(`${gateway.operationsUrl}/status`)
  const status = JSON.parse(body) as Status
  expect([
    status.cache.entries,
    status.quotes.length,
    status.lastRequests.length,
    status.events.length,
  ]).toEqual([200, 80, 100, 50])
  // In a busy hour the numbers of the sparklines have more digits: 90 slots of seven columns.
  const digits = 90 * 7 * 3
  expect(Buffer.byteLength(body) + digits).toBeLessThanOrEqual(65_536)
})

test('counts a hit of a quote only when it is served, not when it is found expired, and cuts a long pair', async () => {
  const clock = createTestClock()
  const upstream = await recordingUpstream()
  const gateway = await gatewayWith({ SWAP_BASE_URL: upstream.url }, { clock })
  const offerUntil = (expiry: number) =>
    upstream.answer((_request, response) =>
      giveQuote(response, quoteBody({ expiry, pairId: 'P'.repeat(1_000) }), [
        'Date',
        new Date(clock.nowMs()).toUTCString(),
      ]),
    )
  offerUntil(clock.nowMs() + 2_000)
  await quote(gateway)
  clock.advance(2_100)
  // Each look-up now finds the expired quote, and the provider has no other.
  upstream.answer((_request, response) => response.writeHead(404).end())
  for (let look = 1; look <= 3; look += 1) await quote(gateway).catch(() => {})
  offerUntil(clock.nowMs() + 600_000)
  await quote(gateway)
  await quote(gateway)
  expect(await statusOf(gateway)).toMatchObject({
    quotes: [{ pair: `${'P'.repeat(200)}…`, hits: 1 }],
  })
})

test('has no keys, and no query of a payments path', async () => {
  const gateway = await gatewayWith()
  const headers = { Authorization: 'Bearer pay-secret' }
  await fetch(`${gateway.url}/checkouts?email=a%40b.example`, { headers })
  const text = async () => JSON.stringify(await statusOf(gateway))
  await expect.poll(text).toContain('"/checkouts"')
  expect(await text()).not.toMatch(/b\.example|pay-secret/)
})

test('has each refused order once, with its reason, and counts it', async () => {
  const gateway = await gatewayWith({ ORDER_UNKNOWN_QUOTE: 'refuse' })
  await floatOrder(gateway)
  const { sparklines, ...status } = (await statusOf(gateway)) as Status
  expect(status).toMatchObject({
    ordersRefused: 1,
    lastRefusals: [{ pair: 'ETH_USDC', reason: 'unknown' }],
    lastRequests: [{ why: expect.stringContaining('quote-unknown'), source: 'client' }],
  })
  await expect
    .poll(async () => ((await statusOf(gateway)) as Status).sparklines.refused.join())
    .toContain('1')
})

test('who waits for the status does not hold up the shutdown', async () => {
  async function msToClose(): Promise<number> {
    const gateway = await startGateway()
    const asked = [statusOf(gateway), statusOf(gateway), statusOf(gateway)]
    await asked[0]
    const startedAt = performance.now()
    await gateway.close()
    const tookMs = performance.now() - startedAt
    await Promise.allSettled(asked)
    return tookMs
  }
  // What holds it up is cut after two seconds, each time. A loaded machine is late sometimes.
  await expect.poll(msToClose).toBeLessThan(1_800)
})
