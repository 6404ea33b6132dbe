import { createServer } from 'node:https'
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { SummedLog } from '../../src/process/summed-log.ts'
import { aSecond, gatewayInHaste } from '../operations/support.ts'
import { ask } from '../support/clients/quotes.ts'
import { sendRaw } from '../support/clients/raw-connection.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { freePort } from '../support/machine/free-port.ts'
import { listening } from '../support/machine/listening.ts'
import { keptLog, type LogLine, levels } from '../support/observing/log-lines.ts'
import { identityOf } from '../support/upstreams/tls-upstream.ts'
import { startLogged } from './support.ts'

/** How many events some lines of one cause stand for. */
const eventsIn = (lines: readonly LogLine[]) =>
  lines.reduce((sum, { times }) => sum + (times === undefined ? 1 : Number(times)), 0)

describe('lines of one cause', () => {
  test('are one line at once, and then one every 10 s that says how many', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const { logger, lines } = await keptLog()
      const log = new SummedLog(logger)
      const fail = () =>
        log.say(
          { level: 'warn', cause: { problem: 'saturated' }, message: 'no' },
          () => ({ id: 1 }),
        )
      for (let times = 0; times < 5; times += 1) fail()
      expect(lines()).toMatchObject([
        { level: levels.warn, problem: 'saturated', id: 1, msg: 'no' },
      ])
      vi.advanceTimersByTime(10_000)
      expect(lines().slice(1)).toMatchObject([
        { problem: 'saturated', times: 4, msg: '4 more within 10 s: no' },
      ])
      fail()
      vi.advanceTimersByTime(10_000)
      expect(lines().slice(2)).toMatchObject([{ times: 1 }])
      // After 10 s without one, the next is a first again.
      vi.advanceTimersByTime(10_000)
      fail()
      expect(lines().slice(3)).toMatchObject([{ id: 1, msg: 'no' }])
    } finally {
      vi.useRealTimers()
    }
  })

  test('count every event, in any order', async () => {
    const cause = fc.constantFrom('saturated', 'breaker-open', 'upstream-reset')
    await fc.assert(
      fc.asyncProperty(fc.array(fc.option(cause), { maxLength: 60 }), async (events) => {
        const { logger, lines } = await keptLog()
        const log = new SummedLog(logger)
        for (const problem of events) {
          if (problem === null) log.flush()
          else log.say({ level: 'warn', cause: { problem }, message: problem })
        }
        log.flush()
        for (const problem of new Set(events)) {
          if (problem === null) continue
          const of = lines().filter((line) => line.problem === problem)
          expect(eventsIn(of)).toBe(events.filter((event) => event === problem).length)
        }
      }),
    )
  })
})

test('a caller that provokes errors without end does not fill the log, and every error is counted', async () => {
  const gateway = await startLogged({ ACCESS_LOG: 'off' })
  const provoke = [
    () => ask(gateway.url, { path: '/v3/pairs/ETH_USDC/quotes?amount=much' }),
    () => ask(gateway.url, { path: '/nowhere' }),
    () => sendRaw(gateway.url, 'GET / HTTP/1.1\r\nHost: a b\r\n\r\n'),
    () => sendRaw(gateway.url, 'nonsense\r\n\r\n'),
  ]
  for (let times = 0; times < 25; times += 1)
    await Promise.all(provoke.map((each) => each()))
  await gateway.close()
  const lines = gateway.lines().filter(({ problem }) => problem !== undefined)
  expect(lines.length).toBeLessThan(30)
  expect(eventsIn(lines)).toBe(100)
})

test('a certificate that has another fault than the one before is a cause of its own', {
  tags: ['openssl'],
}, async () => {
  const [trusted, unknown] = [identityOf('wrong.example'), identityOf()]
  const upstream = createServer(trusted).on('tlsClientError', () => {})
  const { port } = await listening(upstream)
  const settings = {
    SWAP_BASE_URL: `https://localhost:${port}`,
    SWAP_CA_FILE: trusted.certFile,
  }
  const gateway = await startLogged({ ...settings, ACCESS_LOG: 'off', LOG_LEVEL: 'warn' })
  for (const identity of [trusted, unknown]) {
    upstream.setSecureContext(identity)
    for (let times = 1; times <= 3; times += 1)
      expect((await ask(gateway.url, { path: '/v3/pairs' })).status).toBe(502)
  }
  const common = { problem: 'upstream-unreachable', fault: 'tls_certificate_error' }
  const codes = [
    expect.stringMatching(/CERT_ALTNAME_INVALID$/),
    'DEPTH_ZERO_SELF_SIGNED_CERT',
  ]
  expect(gateway.lines()).toMatchObject(codes.map((code) => ({ ...common, code })))
})

test('the line of a breaker says why it opened', async () => {
  const failing = await recordingUpstream((_request, response) =>
    response.writeHead(503).end(),
  )
  const urls = {
    SWAP_BASE_URL: failing.url,
    PAYMENTS_BASE_URL: `http://127.0.0.1:${await freePort()}`,
  }
  const { logger, lines } = await keptLog('info')
  const gateway = await gatewayInHaste(
    { ...urls, breakerFailures: 2, retries: 0 },
    { logger },
  )
  for (let failed = 1; failed <= 2; failed += 1) {
    gateway.pass(aSecond)
    for (const path of ['/v3/pairs', '/checkouts']) await ask(gateway.url, { path })
  }
  const opened = lines().filter(({ state }) => state === 'open')
  const [rest, connections] = [503, 'connection_refused'].map((failure) => ({
    level: 'warn',
    failure,
    msg: expect.stringContaining(String(failure)),
  }))
  expect(opened).toMatchObject([
    { ...rest, upstream: 'swap', breaker: 'rest' },
    { ...connections, upstream: 'payments', breaker: 'connections' },
  ])
})

test('a breaker has one line when it opens, however often it is tried, and one once it is closed, which comes last', async () => {
  let status = 503
  const upstream = await recordingUpstream((_request, response) =>
    response.writeHead(status).end(),
  )
  const { logger, lines } = await keptLog('info')
  const gateway = await gatewayInHaste(
    { SWAP_BASE_URL: upstream.url, breakerFailures: 2, retries: 0 },
    { logger },
  )
  const ofBreaker = () =>
    lines().flatMap(({ level, state, failure }) =>
      state === undefined ? [] : [{ level, state, failure }],
    )
  const opened = { level: 'warn', state: 'open', failure: 503 }
  const closed = { level: 'info', state: 'closed', failure: undefined }
  const failAndRecover = async () => {
    status = 503
    for (let failed = 1; failed <= 2; failed += 1) {
      gateway.pass(aSecond)
      await ask(gateway.url, { path: '/v3/pairs' })
    }
    for (const next of [503, 503, 200]) {
      status = next
      gateway.pass(10_000)
      await ask(gateway.url, { path: '/v3/pairs' })
    }
  }
  await failAndRecover()
  expect(ofBreaker()).toEqual([opened, closed])
  await failAndRecover()
  await gateway.close()
  expect(ofBreaker()).toEqual([opened, closed, opened, closed])
})
