import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { describe, expect, onTestFinished, test } from 'vitest'
import { completeClock } from '../../src/clock.ts'
import { Outages, runbookOf, runbookSections } from '../../src/operations/outages.ts'
import { Recent } from '../../src/operations/recent.ts'
import type { Outage } from '../../src/operations/schemas.ts'
import { giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { aSecond, pause, recordingUpstream } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import { freePort } from '../support/machine/free-port.ts'
import { anchorsOf } from '../support/observing/grafana.ts'
import { valkey } from '../support/stores/valkey.ts'
import { act, ask, floatOrder, gatewayWith, production, quote } from './support.ts'

interface Status {
  now: number
  outages: Outage[]
}

async function statusOf({ operationsUrl }: RunningGateway): Promise<Status> {
  return JSON.parse((await ask(`${operationsUrl}/status`)).body)
}

async function historyOf({ operationsUrl }: RunningGateway) {
  const { body } = await ask(`${operationsUrl}/history`)
  return JSON.parse(body) as { outages: Outage[]; events: { text: string; tone: string }[] }
}

const outagesOf = async (gateway: RunningGateway) => (await statusOf(gateway)).outages

async function get({ url }: RunningGateway, target: string): Promise<number> {
  const headers = { 'App-Name': 'demo', Authorization: 'Bearer key' }
  const answer = await fetch(url + target, { headers })
  await answer.arrayBuffer()
  return answer.status
}

async function openPairsOf({ operationsUrl }: RunningGateway): Promise<number> {
  return JSON.parse((await ask(`${operationsUrl}/status`)).body).upstreams[0].openPairs
}

/** The detail of the problem that the client receives. */
async function detailOf({ url }: RunningGateway, target: string): Promise<string> {
  const answer = await fetch(url + target, { headers: { 'App-Name': 'demo' } })
  return ((await answer.json()) as { detail: string }).detail
}

const quoteOf = (pair: string) => `/v3/pairs/${pair}/quotes?amount=1`

/** An upstream that can be switched off and on. */
async function upstreamThatFails(): Promise<{ url: string; fail(with_: number | 'nothing'): void }> {
  let failing: number | 'nothing' = 'nothing'
  const { url } = await recordingUpstream((_request, response) => {
    if (failing === 'nothing') giveQuote(response, quoteBody({ expiry: Date.now() + 600_000 }))
    else response.writeHead(failing).end()
  })
  return {
    url,
    fail(how) {
      failing = how
    },
  }
}

test('an outage is as long as it is, however the wall clock is set meanwhile', () => {
  let aheadMs = 0
  let isDown = true
  const clock = completeClock({ nowMs: () => Date.now() + aheadMs })
  const recent = new Recent(clock)
  const outages = new Outages(clock, recent)
  const down = (sinceMs?: number) => ({
    ...({ name: 'a part', concerned: 'none', count: () => 0 } as const),
    trouble: () => (isDown ? ({ what: 'store', isSevere: true, sinceMs } as const) : undefined),
  })
  outages.watch([down(), down(performance.now() - 5_000)])
  const ages = () => outages.current.map(({ since }) => Math.round((clock.nowMs() - since) / 1_000))
  for (const step of [0, 3_600_000, -3_600_000, 0]) {
    aheadMs = step
    expect(ages()).toEqual([0, 5])
  }
  aheadMs = 3_600_000
  isDown = false
  expect(ages()).toEqual([])
  expect(outages.past.map(({ since, until }) => Math.round(((until ?? 0) - since) / 1_000))).toEqual([0, 5])
  expect(recent.eventsAfter(0).at(-1)?.text).toBe('a part: over after 5 s')
})

describe('an outage of an upstream', () => {
  test('begins with its first failure, even after several tries', async () => {
    const port = await freePort()
    const gateway = await gatewayWith({
      SWAP_BASE_URL: `http://127.0.0.1:${port}`,
      PAYMENTS_BASE_URL: 'sandbox',
      breakerFailures: 2,
      breakerOpenMs: 50,
      retries: 0,
    })
    expect(await outagesOf(gateway)).toEqual([])
    const before = Date.now()
    await get(gateway, '/v3/pairs')
    const after = Date.now()
    await aSecond()
    await get(gateway, '/v3/pairs')
    for (let trial = 1; trial <= 3; trial += 1) {
      await pause(100)
      await get(gateway, '/v3/pairs')
    }
    const [outage, ...others] = await outagesOf(gateway)
    expect(others).toEqual([])
    expect(outage).toMatchObject({
      what: 'upstream',
      upstream: 'swap',
      traffic: 'connections',
      isSevere: true,
      lastFailure: 'connection refused',
      until: null,
      stillServed: [],
    })
    await get(gateway, '/checkouts?limit=1')
    expect((await outagesOf(gateway))[0]?.stillServed).toEqual(['payments'])
    // The wall clock and the monotonic one are read one after the other.
    expect(outage?.since).toBeGreaterThanOrEqual(before - 2)
    expect(outage?.since).toBeLessThanOrEqual(after + 2)

    const server = createServer((_request, response) => response.end('[]')).listen(port, '127.0.0.1')
    onTestFinished(() => {
      server.close()
    })
    await expect.poll(() => get(gateway, '/v3/pairs'), { timeout: 10_000 }).toBe(200)
    expect(await outagesOf(gateway)).toEqual([])
    const { outages, events } = await historyOf(gateway)
    expect(outages).toMatchObject([{ traffic: 'connections', since: outage?.since }])
    expect(outages[0]?.until).toBeGreaterThan(outage?.since ?? 0)
    expect(events.map(({ tone }) => tone)).toEqual(['note', 'bad', 'good'])
    expect(events.at(-1)?.text).toMatch(/^swap connections: over after .+ s/)
  })

  test('counts each refused request, and says when the upstream is tried again and what is still sent', async () => {
    const upstream = await upstreamThatFails()
    const gateway = await gatewayWith({
      SWAP_BASE_URL: upstream.url,
      breakerFailures: 2,
      breakerOpenMs: 600_000,
    })
    upstream.fail(503)
    await get(gateway, '/v3/pairs')
    await aSecond()
    await get(gateway, '/v3/pairs')
    await Promise.all(Array.from({ length: 30 }, () => get(gateway, '/v3/pairs')))
    upstream.fail('nothing')
    await get(gateway, quoteOf('ETH_USDC'))
    const outages = await outagesOf(gateway)
    expect(outages).toMatchObject([
      {
        upstream: 'swap',
        traffic: 'rest',
        lastFailure: '503',
        requests: 30,
        concerned: 'refused',
        stillServed: ['quotes'],
      },
    ])
    expect(outages[0]?.retryInMs).toBeGreaterThan(300_000)
    expect(outages[0]?.retryInMs).toBeLessThanOrEqual(600_000)
  })

  test('counts the refusals of each outage from zero', async () => {
    const upstream = await upstreamThatFails()
    const gateway = await gatewayWith({
      SWAP_BASE_URL: upstream.url,
      breakerFailures: 1,
      breakerOpenMs: 1_000,
    })
    for (let outage = 1; outage <= 2; outage += 1) {
      upstream.fail(502)
      expect(await get(gateway, '/v3/pairs')).toBe(502)
      await aSecond()
      expect(await get(gateway, '/v3/pairs')).toBe(502)
      expect(await get(gateway, '/v3/pairs')).toBe(503)
      expect(await outagesOf(gateway)).toMatchObject([{ requests: 1, lastFailure: '502' }])
      upstream.fail('nothing')
      await expect.poll(() => get(gateway, '/v3/pairs'), { timeout: 10_000 }).toBe(200)
    }
    const { outages } = await historyOf(gateway)
    expect(outages).toHaveLength(2)
  })

  test('says after how long a request timed out', async () => {
    const { url } = await recordingUpstream(() => {})
    const gateway = await gatewayWith({
      SWAP_BASE_URL: url,
      breakerFailures: 1,
      UPSTREAM_HEADERS_TIMEOUT_MS: 1_000,
    })
    await get(gateway, '/v3/pairs')
    await get(gateway, '/v3/pairs')
    const [outage] = await outagesOf(gateway)
    const [, seconds] = /^timeout after ([\d.]+) s$/.exec(outage?.lastFailure ?? '') ?? []
    expect(Number(seconds)).toBeGreaterThanOrEqual(1)
  })

  test('does not say that a request is trying whose client has left', async () => {
    let hangs = false
    const { url } = await recordingUpstream((_request, response) => {
      if (!hangs) response.writeHead(503).end()
    })
    const gateway = await gatewayWith({ SWAP_BASE_URL: url, breakerFailures: 1, breakerOpenMs: 1_000 })
    await get(gateway, '/v3/pairs')
    await aSecond()
    await get(gateway, '/v3/pairs')
    hangs = true
    const leaving = new AbortController()
    const { headers, signal } = { headers: { 'App-Name': 'demo' }, signal: leaving.signal }
    const retryInMs = async () => (await outagesOf(gateway))[0]?.retryInMs
    await expect.poll(retryInMs, { timeout: 10_000 }).toBe(0)
    const trial = fetch(`${gateway.url}/v3/pairs`, { headers, signal }).catch(() => {})
    // Longer than breakerOpenMs, it keeps no other request from trying.
    await expect.poll(retryInMs, { interval: 20 }).toBeUndefined()
    leaving.abort()
    await trial
    await expect.poll(retryInMs, { interval: 20 }).toBe(0)
    expect(await outagesOf(gateway)).toMatchObject([{ lastFailure: '503' }])
  })

  test('of single pairs says how many pairs and which', async () => {
    const upstream = await upstreamThatFails()
    const gateway = await gatewayWith({
      SWAP_BASE_URL: upstream.url,
      breakerFailures: 3,
      breakerOpenMs: 600_000,
    })
    upstream.fail(504)
    const bothFail = () => Promise.all(['ETH_USDC', 'BTC_USDC'].map((pair) => get(gateway, quoteOf(pair))))
    await bothFail()
    await bothFail()
    await aSecond()
    await bothFail()
    upstream.fail('nothing')
    await get(gateway, quoteOf('SOL_USDC'))
    await get(gateway, '/v3/pairs')
    expect(await outagesOf(gateway)).toMatchObject([{ requests: 0 }])
    for (let refused = 1; refused <= 4; refused += 1) await get(gateway, quoteOf('ETH_USDC'))
    expect(await outagesOf(gateway)).toMatchObject([
      {
        what: 'pairs',
        isSevere: false,
        names: ['BTC_USDC', 'ETH_USDC'],
        howMany: 2,
        lastFailure: '504',
        requests: 4,
        retryInMs: expect.any(Number),
        stillServed: ['quotes of other pairs', 'the rest of the swap API'],
      },
    ])
  })

  test('of all quotes that are asked for says so, of how many pairs, and names only what has succeeded since', async () => {
    const upstream = await upstreamThatFails()
    const gateway = await gatewayWith({
      SWAP_BASE_URL: upstream.url,
      PAYMENTS_BASE_URL: 'sandbox',
      breakerFailures: 2,
      breakerOpenMs: 600_000,
    })
    const pairs = ['A_B', 'C_D', 'E_F', 'G_H']
    const askForAll = () =>
      Promise.all([...pairs.map(quoteOf), '/v3/pairs'].map((target) => get(gateway, target)))
    // What has succeeded before says nothing.
    for (const target of [quoteOf('I_J'), '/v3/pairs', '/checkouts?limit=1']) await get(gateway, target)
    upstream.fail(503)
    await askForAll()
    await aSecond()
    await askForAll()
    await askForAll()
    const swap = { upstream: 'swap', isSevere: true, lastFailure: '503' }
    const allFail = { ...swap, what: 'pairs', howMany: 4, askedFor: 4, requests: 4 }
    expect(await outagesOf(gateway)).toMatchObject([
      { ...swap, what: 'upstream', traffic: 'rest', stillServed: [] },
      { ...allFail, stillServed: [] },
    ])
    expect(await openPairsOf(gateway)).toBe(4)
    expect(await detailOf(gateway, quoteOf('A_B'))).toMatch(
      /^All quotes that were asked for fail at the swap API \(4 of 4 pairs\)\. Nothing was sent: /,
    )
    expect(await detailOf(gateway, '/v3/pairs')).toMatch(
      /^Requests other than quotes and orders keep failing at the swap API\. Nothing was sent: /,
    )
    const texts = async () => (await historyOf(gateway)).events.map(({ text }) => text)
    const swapQuotes = 'swap quotes: all that were asked for fail (4 of 4 pairs), the last failure was 503'
    await expect.poll(texts, { timeout: 10_000 }).toContain(swapQuotes)

    await get(gateway, '/checkouts?limit=1')
    const stillServed = async () => (await outagesOf(gateway))[1]?.stillServed
    expect(await stillServed()).toEqual(['payments'])
    const servedAfterAHit = async () => {
      await get(gateway, quoteOf('I_J'))
      return stillServed()
    }
    await expect
      .poll(servedAfterAHit, { timeout: 10_000 })
      .toEqual(['cached quotes until they expire', 'payments'])

    upstream.fail('nothing')
    await get(gateway, quoteOf('K_L'))
    expect((await outagesOf(gateway))[1]).toMatchObject({
      ...{ what: 'pairs', isSevere: false, howMany: 4, requests: 0 },
      stillServed: ['quotes of other pairs', 'payments'],
    })
    expect(await detailOf(gateway, quoteOf('A_B'))).toMatch(
      /^Quotes of this pair keep failing at the swap API\. Still served: quotes of other pairs\. Nothing was sent: /,
    )
    expect((await texts()).slice(-2)).toEqual([
      expect.stringMatching(/^swap quotes: over after .+, 5 refused$/),
      'swap quotes: 4 pairs stopped, the last failure was 503',
    ])
  })

  test('of all quotes begins after the last success, though a pair has failed for longer', async () => {
    const upstream = await upstreamThatFails()
    const gateway = await gatewayWith({
      SWAP_BASE_URL: upstream.url,
      breakerFailures: 2,
      breakerOpenMs: 600_000,
    })
    const stop = async (pair: string) => {
      upstream.fail(503)
      await get(gateway, quoteOf(pair))
      await aSecond()
      await get(gateway, quoteOf(pair))
    }
    await stop('OLD_PAIR')
    upstream.fail('nothing')
    await get(gateway, quoteOf('A_B'))
    const [before] = await outagesOf(gateway)
    expect(before).toMatchObject({ what: 'pairs', isSevere: false, howMany: 1 })
    await aSecond()
    await stop('C_D')
    const [outage, ...others] = await outagesOf(gateway)
    expect(others).toEqual([])
    expect(outage).toMatchObject({ what: 'pairs', isSevere: true, howMany: 2, askedFor: 2 })
    expect(outage?.since).toBeGreaterThan((before?.since ?? 0) + 1_000)
    const { events } = await historyOf(gateway)
    // That it became worse is not the end of what was before.
    expect(events.map(({ tone }) => tone).slice(-2)).toEqual(['warn', 'bad'])
  })

  test('names no pair to viewers without the token', async () => {
    const upstream = await upstreamThatFails()
    const gateway = await gatewayWith({ ...production, SWAP_BASE_URL: upstream.url, breakerFailures: 1 })
    upstream.fail(503)
    await get(gateway, quoteOf('SECRET_PAIR'))
    await aSecond()
    await get(gateway, quoteOf('SECRET_PAIR'))
    const { body } = await ask(`${gateway.operationsUrl}/status`)
    expect(JSON.parse(body).outages).toContainEqual(
      expect.objectContaining({ what: 'pairs', howMany: 1, names: [] }),
    )
    const history = await ask(`${gateway.operationsUrl}/history`)
    expect(body + history.body).not.toContain('SECRET')
  })
})

describe('other things that can be wrong', () => {
  test('the store: since when, the failure, and how many expired orders were forwarded because of it', {
    tags: ['redis-server'],
  }, async () => {
    const store = await valkey()
    const gateway = await gatewayWith({
      VALKEY_URL: store.url,
      // On a loaded machine the store may be late, which would be an outage before it is killed.
      VALKEY_TIMEOUT_MS: 5_000,
      ORDER_EXPIRY_MARGIN_MS: 60_000,
    })
    await quote(gateway)
    await expect
      .poll(async () => (await ask(`${gateway.operationsUrl}/readyz`)).body, { timeout: 10_000 })
      .toContain('"degraded":false')
    await expect.poll(() => outagesOf(gateway), { timeout: 10_000 }).toEqual([])
    const before = Date.now()
    await store.kill()
    await expect
      .poll(() => outagesOf(gateway), { timeout: 15_000 })
      .toMatchObject([{ what: 'store', isSevere: true, lastFailure: expect.any(String), requests: 0 }])
    expect((await outagesOf(gateway))[0]?.since).toBeGreaterThanOrEqual(before - 2)
    await floatOrder(gateway)
    expect(await outagesOf(gateway)).toMatchObject([{ requests: 1, concerned: 'forwarded' }])
  })

  test("the provider's clock, as soon as it is more than two seconds off", async () => {
    const gateway = await gatewayWith()
    await act(gateway, 'faults', { clockOffsetMs: 60_000 })
    await get(gateway, quoteOf('ETH_USDC'))
    await expect
      .poll(() => outagesOf(gateway), { timeout: 10_000 })
      .toMatchObject([{ what: 'clock', isSevere: true }])
    const [outage] = await outagesOf(gateway)
    expect(outage?.offsetMs).toBeGreaterThan(50_000)
    const { events } = await historyOf(gateway)
    expect(events.map(({ text }) => text)).toContainEqual(
      expect.stringMatching(/^provider's clock: \d+ s off$/),
    )
  })

  test('a missing TRUST_PROXY, with the requests that it concerns', async () => {
    const gateway = await gatewayWith()
    for (let request = 1; request <= 3; request += 1) {
      await fetch(gateway.url + quoteOf(`P_${request}`), {
        headers: { 'App-Name': 'demo', Forwarded: 'for=198.51.100.7' },
      })
    }
    expect(await outagesOf(gateway)).toMatchObject([
      { what: 'trust-proxy', isSevere: false, names: ['127.0.0.1'], howMany: 1, requests: 3 },
    ])
  })

  test('orders that are forwarded as unknown, above their usual share', async () => {
    const gateway = await gatewayWith()
    for (let order = 1; order <= 5; order += 1) await floatOrder(gateway, { amount: String(order) })
    await pause(1_500)
    expect(await outagesOf(gateway)).toEqual([])
    await floatOrder(gateway, { amount: '6' })
    await expect
      .poll(() => outagesOf(gateway), { timeout: 10_000 })
      .toMatchObject([{ what: 'unknown-orders', isSevere: false, share: 1, usualShare: 1 }])
  })
})

test('each thing that can be wrong has a section of the runbook', () => {
  const page = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8')
  const anchors = anchorsOf(page)
  expect(runbookSections.length).toBeGreaterThan(5)
  expect(runbookSections.filter((section) => !anchors.has(section))).toEqual([])
  expect(runbookOf({ what: 'clock' })).toMatch(/\/docs\/runbook\.md#quotegateclockunknown$/)
  expect(runbookOf({ what: 'clock', offsetMs: 3_000 })).toMatch(/#quotegateclockoffset$/)
})

test('events tell of a start, of quotes that were dropped and of faults of the sandbox', async () => {
  const gateway = await gatewayWith()
  await get(gateway, quoteOf('ETH_USDC'))
  await act(gateway, 'drop-all')
  await fetch(`${gateway.sandboxUrl}/sandbox/faults`, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/json' },
    body: '{"errorRate":0.5}',
  })
  const texts = async () => (await historyOf(gateway)).events.map(({ text }) => text)
  await expect
    .poll(texts, { timeout: 10_000 })
    .toEqual([
      expect.stringMatching(/^start of version \d/),
      'a quote was dropped',
      'sandbox: errorRate 0 to 0.5',
    ])
})
