import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect, createServer as createTcpServer } from 'node:net'
import { describe, expect, test } from 'vitest'
import { completeClock } from '../../src/clock.ts'
import { Outages, runbookOf } from '../../src/operations/outages.ts'
import { Recent } from '../../src/operations/recent.ts'
import type { Outage, Status } from '../../src/operations/schemas.ts'
import { silentLogger } from '../../src/process/logger.ts'
import { giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { gatewayWith, pause, recordingUpstream } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import { startListening } from '../support/gateways/program.ts'
import { freePort } from '../support/machine/free-port.ts'
import { listening } from '../support/machine/listening.ts'
import { newFolder } from '../support/machine/new-folder.ts'
import { valkey } from '../support/stores/valkey.ts'
import {
  act,
  aSecond,
  ask,
  eventsOf,
  floatOrder,
  gatewayInHaste,
  quote,
  statusOf,
} from './support.ts'

/** Of this process, or a program. */
type Gateway = Pick<RunningGateway, 'url' | 'operationsUrl'>

const outagesOf = async (gateway: Gateway) =>
  (await statusOf(gateway)).outages as Outage[]
const textsOf = async (gateway: Gateway) =>
  (await eventsOf(gateway)).map(({ text }) => text)

const send = ({ url }: Gateway, target: string) =>
  fetch(url + target, { headers: { 'App-Name': 'demo', Authorization: 'Bearer key' } })

async function get(gateway: Gateway, target: string): Promise<number> {
  const answer = await send(gateway, target)
  await answer.arrayBuffer()
  return answer.status
}

/** The detail of the problem that the caller receives. */
const detailOf = async (gateway: RunningGateway, target: string) =>
  ((await (await send(gateway, target)).json()) as { detail: string }).detail

const quoteOf = (pair: string) => `/v3/pairs/${pair}/quotes?amount=1`

/** A gateway whose breakers open after so many failures, and an upstream that can be switched off and on. */
async function failingStage(
  breakerFailures: number,
  settings: Record<string, string> = {},
) {
  let failing: number | 'nothing' | 'hangs' = 'nothing'
  const { url } = await recordingUpstream((_request, response) => {
    if (failing === 'nothing')
      giveQuote(response, quoteBody({ expiry: Date.now() + 600_000 }))
    else if (failing !== 'hangs') response.writeHead(failing).end()
  })
  const gateway = await gatewayInHaste({
    SWAP_BASE_URL: url,
    breakerFailures,
    breakerOpenMs: 600_000,
    ...settings,
  })
  return {
    gateway,
    fail(how: typeof failing) {
      failing = how
    },
    /** Asks for all of them until their breakers have opened. */
    async stop(...targets: string[]) {
      const times = Math.max(2, breakerFailures)
      for (let failed = 1; failed <= times; failed += 1) {
        if (failed === times) gateway.pass(aSecond)
        await Promise.all(targets.map((target) => get(gateway, target)))
      }
    },
  }
}

test('an outage is as long as it is, however the wall clock is set meanwhile', () => {
  let aheadMs = 0
  let isDown = true
  const clock = completeClock({ nowMs: () => Date.now() + aheadMs })
  const recent = new Recent(clock)
  const outages = new Outages(clock, recent, silentLogger())
  const down = (sinceMs?: number) => ({
    name: 'a part',
    trouble: () =>
      isDown
        ? ({ what: 'store', says: 'down', isSevere: true, sinceMs } as const)
        : undefined,
  })
  outages.watch([down(), down(performance.now() - 600_000)])
  const minutes = (ms: number) => Math.round(ms / 60_000)
  const ages = () => outages.current.map(({ since }) => minutes(clock.nowMs() - since))
  for (const step of [0, 3_600_000, -3_600_000, 0]) {
    aheadMs = step
    expect(ages()).toEqual([0, 10])
  }
  aheadMs = 3_600_000
  isDown = false
  expect(ages()).toEqual([])
  expect(outages.past.map(({ since, until }) => minutes(until - since))).toEqual([0, 10])
  expect(recent.events[0]?.text).toBe('a part: over after 10 min')
})

describe('an outage of an upstream', () => {
  test('begins with its first failure, even after several tries, and is over with a success', async () => {
    const port = await freePort()
    const gateway = await gatewayInHaste({
      SWAP_BASE_URL: `http://127.0.0.1:${port}`,
      PAYMENTS_BASE_URL: 'sandbox',
      breakerFailures: 2,
      breakerOpenMs: 600_000,
      retries: 0,
    })
    expect(await outagesOf(gateway)).toEqual([])
    const before = Date.now()
    await get(gateway, '/v3/pairs')
    const after = Date.now()
    gateway.pass(aSecond)
    await get(gateway, '/v3/pairs')
    for (let trial = 1; trial <= 3; trial += 1) {
      gateway.pass(600_000)
      await get(gateway, '/v3/pairs')
    }
    await get(gateway, '/checkouts?limit=1')
    const [outage, ...others] = await outagesOf(gateway)
    expect(others).toEqual([])
    expect(outage).toMatchObject({
      what: 'upstream',
      upstream: 'swap',
      failing: ['quotes', 'orders', 'rest'],
      text: 'The swap API fails (connection refused) for quotes, orders and everything else',
      isSevere: true,
      lastFailure: 'connection refused',
      stillServed: ['payments'],
    })
    // The wall clock and the monotonic one are read one after the other.
    expect(outage?.since).toBeGreaterThanOrEqual(before - 2)
    expect(outage?.since).toBeLessThanOrEqual(after + 2)

    await listening(
      createServer((_request, response) => response.end('[]')),
      port,
    )
    gateway.pass(600_000)
    expect(await get(gateway, '/v3/pairs')).toBe(200)
    expect(await outagesOf(gateway)).toEqual([])
    const { pastOutages } = (await statusOf(gateway)) as Status
    expect(pastOutages).toMatchObject([{ what: 'upstream', since: outage?.since }])
    expect(pastOutages[0]?.until).toBeGreaterThan(outage?.since ?? 0)
    const events = await eventsOf(gateway)
    expect(events.map(({ tone }) => tone)).toEqual(['note', 'bad', 'good'])
    expect(events.at(-1)?.text).toMatch(/^The swap API: over after .+ s/)
  })

  test('counts each refused request from zero, and says when the upstream is tried again and what is still sent', async () => {
    const { gateway, fail, stop } = await failingStage(2)
    for (const [status, refused] of [
      [503, 30],
      [502, 1],
    ] as const) {
      fail(status)
      await stop('/v3/pairs')
      await Promise.all(Array.from({ length: refused }, () => get(gateway, '/v3/pairs')))
      fail('nothing')
      await get(gateway, quoteOf(`P_${status}`))
      const [outage, ...others] = await outagesOf(gateway)
      expect(others).toEqual([])
      expect(outage).toMatchObject({
        upstream: 'swap',
        failing: ['rest'],
        text: `The swap API fails (${status}) for other requests`,
        lastFailure: String(status),
        requests: refused,
        concerned: 'refused',
        stillServed: ['quotes'],
      })
      expect(outage?.retryInMs).toBeGreaterThan(300_000)
      expect(outage?.retryInMs).toBeLessThanOrEqual(600_000)
      gateway.pass(600_000)
      expect(await get(gateway, '/v3/pairs')).toBe(200)
    }
    expect((await statusOf(gateway)).pastOutages).toHaveLength(2)
  })

  test.each(['/v3/pairs', quoteOf('A_B')])(
    'says after how long %s timed out, and not that one is trying whose caller has left',
    async (target) => {
      const { gateway, fail } = await failingStage(1, {
        UPSTREAM_HEADERS_TIMEOUT_MS: '1000',
      })
      fail(503)
      await get(gateway, target)
      gateway.pass(aSecond)
      fail('hangs')
      await get(gateway, target)
      const [outage] = await outagesOf(gateway)
      const [, seconds] =
        /^timeout after ([\d.]+) s$/.exec(outage?.lastFailure ?? '') ?? []
      expect(Number(seconds)).toBeGreaterThanOrEqual(1)

      const retryInMs = async () => (await outagesOf(gateway))[0]?.retryInMs
      gateway.pass(600_000)
      expect(await retryInMs()).toBe(0)
      const leaving = new AbortController()
      const { headers, signal } = {
        headers: { 'App-Name': 'demo' },
        signal: leaving.signal,
      }
      const trial = fetch(gateway.url + target, { headers, signal }).catch(() => {})
      await expect.poll(retryInMs, { interval: 5 }).toBeUndefined()
      leaving.abort()
      await trial
      await expect.poll(retryInMs, { interval: 5 }).toBe(0)
    },
  )

  test('of all quotes that are asked for says so, of how many pairs, and names only what has succeeded since', async () => {
    const { gateway, fail, stop } = await failingStage(2, {
      PAYMENTS_BASE_URL: 'sandbox',
    })
    const pairs = ['A_B', 'C_D', 'E_F', 'G_H']
    const all = [...pairs.map(quoteOf), '/v3/pairs']
    // What has succeeded before says nothing.
    for (const target of [quoteOf('I_J'), '/v3/pairs', '/checkouts?limit=1'])
      await get(gateway, target)
    fail(503)
    await stop(...all)
    await Promise.all(all.map((target) => get(gateway, target)))
    const text = 'The swap API fails (503) for quotes and other requests'
    const allFail = { upstream: 'swap', isSevere: true, lastFailure: '503', text }
    expect(await outagesOf(gateway)).toMatchObject([
      { ...allFail, what: 'upstream', requests: 5, stillServed: [] },
    ])
    expect((await statusOf(gateway)).upstreams[0].openPairs).toBe(4)
    expect(await detailOf(gateway, quoteOf('A_B'))).toMatch(
      /^All quotes that were asked for fail .+ \(4 of 4 pairs\)\. Nothing was sent: /,
    )
    expect(await detailOf(gateway, '/v3/pairs')).toMatch(
      /^Requests other than quotes and orders keep failing .+\. Nothing was sent: /,
    )
    expect((await textsOf(gateway)).at(-1)).toBe(text)

    await get(gateway, '/checkouts?limit=1')
    const stillServed = async () => (await outagesOf(gateway))[0]?.stillServed
    expect(await stillServed()).toEqual(['payments'])
    const servedAfterAHit = async () => {
      await get(gateway, quoteOf('I_J'))
      return stillServed()
    }
    await expect.poll(servedAfterAHit).toEqual(['cached quotes', 'payments'])
    await act(gateway, 'drop-all')
    expect(await stillServed()).toEqual(['payments'])

    fail('nothing')
    await get(gateway, quoteOf('K_L'))
    expect(await outagesOf(gateway)).toMatchObject([
      { what: 'upstream', failing: ['rest'] },
      {
        what: 'pairs',
        isSevere: false,
        howMany: 4,
        requests: 0,
        stillServed: ['quotes of other pairs', 'payments'],
      },
    ])
    expect(await detailOf(gateway, quoteOf('A_B'))).toMatch(
      /^Quotes of this pair keep failing .+\. Still served: quotes of other pairs\. Nothing was sent: /,
    )
    expect((await textsOf(gateway)).slice(-2)).toEqual([
      'The swap API fails (503) for other requests',
      'swap quotes: 4 pairs stopped (503)',
    ])
  })

  test('of all that is asked of the swap API is one sentence, from its beginning to its end', async () => {
    const { gateway, fail, stop } = await failingStage(2, {
      PAYMENTS_BASE_URL: 'sandbox',
    })
    const order = () => floatOrder(gateway)
    fail(503)
    for (const failed of [1, 2]) {
      if (failed === 2) gateway.pass(aSecond)
      await Promise.all([order(), order()])
    }
    const ofOrders = 'The swap API fails (503) for orders'
    expect(await outagesOf(gateway)).toMatchObject([{ text: ofOrders }])
    await stop(quoteOf('A_B'), '/v3/pairs')
    await get(gateway, '/checkouts?limit=1')
    const ofAll = 'The swap API fails (503) for quotes, orders and everything else'
    expect(await outagesOf(gateway)).toMatchObject([
      { text: ofAll, stillServed: ['payments'] },
    ])
    fail('nothing')
    gateway.pass(600_000)
    for (const target of [quoteOf('A_B'), '/v3/pairs']) await get(gateway, target)
    expect(await outagesOf(gateway)).toMatchObject([
      { text: ofOrders, stillServed: ['quotes', 'other swap requests', 'payments'] },
    ])
    await order()
    expect(await outagesOf(gateway)).toEqual([])
    expect((await statusOf(gateway)).pastOutages).toHaveLength(1)
    const events = await eventsOf(gateway)
    // The event of the beginning, the one of how it was last, and the one of the end.
    expect(events.slice(1).map(({ text }) => text)).toEqual([
      ofOrders,
      ofOrders,
      expect.stringMatching(/^The swap API: over after /),
    ])
  })

  test('of single pairs says which; that of all begins after the last success, though a pair has failed for longer', async () => {
    const { gateway, fail, stop } = await failingStage(3)
    fail(504)
    await stop(quoteOf('OLD_PAIR'), quoteOf('BTC_USDC'))
    fail('nothing')
    for (const target of [quoteOf('A_B'), '/v3/pairs']) await get(gateway, target)
    const [before] = await outagesOf(gateway)
    expect(before).toMatchObject({
      what: 'pairs',
      isSevere: false,
      names: ['BTC_USDC', 'OLD_PAIR'],
      howMany: 2,
      requests: 0,
      lastFailure: '504',
      retryInMs: expect.any(Number),
      stillServed: ['quotes of other pairs', 'other swap requests'],
    })
    for (let refused = 1; refused <= 4; refused += 1)
      await get(gateway, quoteOf('BTC_USDC'))
    expect(await outagesOf(gateway)).toMatchObject([{ requests: 4 }])
    await pause(50)
    fail(503)
    await stop(quoteOf('C_D'))
    const [outage, ...others] = await outagesOf(gateway)
    expect(others).toEqual([])
    expect(outage).toMatchObject({
      what: 'upstream',
      text: 'The swap API fails (503) for quotes',
      isSevere: true,
      names: ['BTC_USDC', 'C_D', 'OLD_PAIR'],
      howMany: 3,
      askedFor: 3,
    })
    expect(outage?.since).toBeGreaterThanOrEqual((before?.since ?? 0) + 50)
    // That it became worse is not the end of what was before.
    expect((await eventsOf(gateway)).map(({ tone }) => tone).slice(-2)).toEqual([
      'warn',
      'bad',
    ])
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
      .poll(() => statusOf(gateway))
      .toMatchObject({ degraded: false, outages: [] })
    const before = Date.now()
    await store.kill()
    const down = {
      what: 'store',
      isSevere: false,
      lastFailure: expect.any(String),
      requests: 0,
    }
    await expect.poll(() => outagesOf(gateway)).toMatchObject([down])
    expect((await outagesOf(gateway))[0]?.since).toBeGreaterThanOrEqual(before - 2)
    await floatOrder(gateway)
    expect(await outagesOf(gateway)).toMatchObject([
      { requests: 1, concerned: 'forwarded', isSevere: true },
    ])
    const ofTheStore = (await eventsOf(gateway)).slice(1)
    expect(ofTheStore.map(({ tone }) => tone)).toEqual(['warn', 'bad'])
  })

  test('the store: up, but too old for its journal, which is off until a restart', {
    tags: ['redis-server'],
  }, async () => {
    const [{ port }, front] = [await valkey(), await freePort()]
    const gateway = await gatewayWith({
      VALKEY_URL: `redis://127.0.0.1:${front}`,
      VALKEY_TIMEOUT_MS: 500,
    })
    // It comes after the gateway, which would not have started with it, and says that it is a Redis 6.
    const old = createTcpServer((near) => {
      const far = connect(port, '127.0.0.1').on('error', () => near.destroy())
      near.on('error', () => {}).on('close', () => far.destroy())
      near.pipe(far).on('data', (bytes) => {
        near.write(
          bytes.toString('latin1').replace('redis_version:7', 'redis_version:6'),
          'latin1',
        )
      })
    })
    await listening(old, front)
    const says = expect.stringMatching(
      /^up, but its journal is not used \(.+ it is Redis 6.+\), .+ are forwarded$/,
    )
    const off = {
      store: { up: true },
      degraded: true,
      outages: [{ what: 'store', isSevere: false, says }],
    }
    await expect.poll(() => statusOf(gateway), { timeout: 20_000 }).toMatchObject(off)
    const { body } = await ask(`${gateway.operationsUrl}/readyz`)
    expect(JSON.parse(body)).toEqual({ status: 'ready', degraded: true })
  })

  test('a full disk: why, in a sentence and an event, until it is written to again', {
    tags: ['prlimit'],
  }, async () => {
    const STATE_DIRECTORY = newFolder()
    const gateway = await startListening({ STATE_DIRECTORY, NODE_ENV: 'development' })
    /** As on a full disk, no file may become longer than this. */
    const limitFiles = (bytes: number | 'unlimited') => {
      const { status, stderr } = spawnSync('prlimit', [
        `--pid=${gateway.child.pid}`,
        `--fsize=${bytes}:unlimited`,
      ])
      expect([status, String(stderr)]).toEqual([0, ''])
    }
    await get(gateway, quoteOf('ETH_USDC'))
    expect(await outagesOf(gateway)).toEqual([])
    limitFiles(1)
    await get(gateway, quoteOf('BTC_USDC'))
    const says = expect.stringMatching(
      /^cannot be written to \((?:write|open): EFBIG: file too large\), so a restart now forgets the newest quotes, /,
    )
    const runbook = expect.stringMatching(/#quotegatejournalnotwritten--warning$/)
    const disk = { what: 'disk', name: 'STATE_DIRECTORY', isSevere: false, says, runbook }
    await expect.poll(() => outagesOf(gateway)).toMatchObject([disk])
    expect((await textsOf(gateway)).at(-1)).toMatch(
      /^STATE_DIRECTORY: cannot be written to /,
    )
    limitFiles('unlimited')
    await expect.poll(() => outagesOf(gateway)).toEqual([])
    expect((await textsOf(gateway)).at(-1)).toMatch(/^STATE_DIRECTORY: over after /)
  })

  test("the provider's clock, as soon as it is more than two seconds off", async () => {
    const gateway = await gatewayWith()
    await act(gateway, 'faults', { clockOffsetMs: 60_000 })
    await get(gateway, quoteOf('ETH_USDC'))
    await expect
      .poll(() => outagesOf(gateway))
      .toMatchObject([{ what: 'clock', isSevere: false }])
    expect((await outagesOf(gateway))[0]?.offsetMs).toBeGreaterThan(50_000)
    // The event of the changed fault may come after it.
    expect(await textsOf(gateway)).toContainEqual(
      expect.stringMatching(/^provider's clock: \d+ s ahead of ours, /),
    )
  })

  test('a missing TRUST_PROXY, and more orders that are forwarded as unknown than usual', async () => {
    const gateway = await gatewayWith()
    const headers = { Forwarded: 'for=198.51.100.7' }
    for (const pair of ['P_1', 'P_2', 'P_3']) await quote(gateway, { pair, headers })
    const trustProxy = {
      what: 'trust-proxy',
      isSevere: false,
      names: ['127.0.0.1'],
      howMany: 1,
      requests: 3,
      says: expect.stringMatching(/^1 peer outside it sent a user's address: /),
    }
    for (let order = 1; order <= 5; order += 1)
      await floatOrder(gateway, { amount: String(order) })
    await expect.poll(async () => (await statusOf(gateway)).savings.orders).toBe(5)
    expect(await outagesOf(gateway)).toMatchObject([trustProxy])
    await floatOrder(gateway, { amount: '6' })
    const says = '100 % of the float orders of the last 30 min were forwarded as unknown'
    const unknown = {
      what: 'unknown-orders',
      says,
      isSevere: false,
      share: 1,
      usualShare: 1,
    }
    await expect.poll(() => outagesOf(gateway)).toMatchObject([trustProxy, unknown])
  })
})

test('a sentence links to the section of the runbook about it', () => {
  const page = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8')
  // Without the token its lists are empty, which reads as if nothing had failed.
  const commands = page.match(/curl [^`\n]*\/status/g) ?? ['none']
  expect(commands.filter((command) => !command.includes('-H "$auth"'))).toEqual([])
  expect(runbookOf({ what: 'clock' })).toBe('runbook#quotegateclockunknown--warning')
  expect(runbookOf({ what: 'clock', offsetMs: 3_000 })).toBe(
    'runbook#quotegateclockoffset--warning',
  )
})

test('events tell of a start, of quotes that were dropped and of faults of the sandbox', async () => {
  const gateway = await gatewayWith()
  await get(gateway, quoteOf('ETH_USDC'))
  await act(gateway, 'drop-all')
  await act(gateway, 'faults', { errorRate: 0.5 })
  const start = expect.stringMatching(/^start of version \d/)
  const all = [start, 'a quote was dropped', 'sandbox: errorRate 0 to 0.5']
  await expect.poll(() => textsOf(gateway)).toEqual(all)
})
