import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import fc from 'fast-check'
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { SummedLog } from '../../src/process/summed-log.ts'
import { ask } from '../support/clients/quotes.ts'
import { sendRaw } from '../support/clients/raw-client.ts'
import { aSecond, recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { killPrograms } from '../support/gateways/program.ts'
import { freePort } from '../support/machine/free-port.ts'
import { keptLog, type LogLine, levels } from '../support/observing/log-lines.ts'
import { identityOf } from '../support/upstreams/tls-upstream.ts'
import { startLogged } from './support.ts'

afterEach(killPrograms)

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
        log.say({ level: 'warn', cause: { problem: 'saturated' }, message: 'no' }, () => ({ id: 1 }))
      for (let times = 0; times < 5; times += 1) fail()
      expect(lines()).toMatchObject([{ level: levels.warn, problem: 'saturated', id: 1, msg: 'no' }])
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

test('a client that provokes errors without end does not fill the log, and every error is counted', async () => {
  const { url } = await recordingUpstream()
  const gateway = await startLogged({ SWAP_BASE_URL: url })
  const provoke = [
    () => ask(gateway.url, { path: '/v3/pairs/ETH_USDC/quotes?amount=much' }),
    () => ask(gateway.url, { path: '/nowhere' }),
    () => sendRaw(gateway.url, 'GET / HTTP/1.1\r\nHost: a b\r\n\r\n'),
    () => sendRaw(gateway.url, 'nonsense\r\n\r\n'),
  ]
  for (let times = 0; times < 25; times += 1) await Promise.all(provoke.map((each) => each()))
  const lines = (await gateway.stopped()).filter(({ problem }) => problem !== undefined)
  expect(lines.length).toBeLessThan(30)
  expect(eventsIn(lines)).toBe(100)
})

test('a certificate that has another fault than the one before is a cause of its own', {
  tags: ['openssl'],
}, async () => {
  const [trusted, unknown] = [identityOf('wrong.example'), identityOf()]
  const upstream = createServer(trusted).on('tlsClientError', () => {})
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  const { port } = upstream.address() as AddressInfo
  const log = await keptLog('warn')
  const gateway = await startGateway(
    { SWAP_BASE_URL: `https://localhost:${port}`, SWAP_CA_FILE: trusted.certFile },
    { logger: log.logger },
  )
  onTestFinished(async () => {
    await gateway.close()
    upstream.close()
  })
  for (const identity of [trusted, unknown]) {
    upstream.setSecureContext(identity)
    for (let times = 1; times <= 3; times += 1)
      expect((await ask(gateway.url, { path: '/v3/pairs' })).status).toBe(502)
  }
  const common = { problem: 'upstream-unreachable', fault: 'tls_certificate_error' }
  const codes = [expect.stringMatching(/CERT_ALTNAME_INVALID$/), 'DEPTH_ZERO_SELF_SIGNED_CERT']
  expect(log.lines()).toMatchObject(codes.map((code) => ({ ...common, code })))
})

test('the line of a breaker says why it opened', async () => {
  const failing = await recordingUpstream((_request, response) => response.writeHead(503).end())
  const closed = `http://127.0.0.1:${await freePort()}`
  const settings = { breakerFailures: '2', retries: '0', PAYMENTS_BASE_URL: closed }
  const gateway = await startLogged({ SWAP_BASE_URL: failing.url, ...settings })
  for (const path of ['/v3/pairs', '/checkouts']) await ask(gateway.url, { path })
  await aSecond()
  for (const path of ['/v3/pairs', '/checkouts']) await ask(gateway.url, { path })
  const opened = (await gateway.stopped()).filter(({ state }) => state === 'open')
  expect(opened).toMatchObject([
    { level: 'warn', upstream: 'swap', breaker: 'rest', failure: 503, msg: expect.stringContaining('503') },
    {
      level: 'warn',
      upstream: 'payments',
      breaker: 'connections',
      failure: 'connection_refused',
      msg: expect.stringContaining('connection_refused'),
    },
  ])
})
