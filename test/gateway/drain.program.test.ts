import type { ServerResponse } from 'node:http'
import { createServer } from 'node:net'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { createGateway } from '../../src/gateway/gateway.ts'
import { onSignalsAndErrors } from '../../src/process/signals.ts'
import { giveQuote, quoteBody, quotePath } from '../support/clients/quotes.ts'
import {
  get,
  RawConnection,
  rawExchange,
  valuesOf,
} from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  pause,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import { startListening } from '../support/gateways/program.ts'
import { listening } from '../support/machine/listening.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

const connectionOf = (answer: { rawHeaders: string[] }) =>
  valuesOf(answer.rawHeaders, 'connection')
/** Far longer than any test: a test that waits for it never finishes. */
const veryLongMs = 600_000
/** As in signals.ts: signals within this time of the first count as one. */
const sameKeypressMs = 500

/** An upstream that answers when the test says so, and a gateway in front of it. */
async function gatewayThatWaits(settings: Record<string, number> = {}) {
  const waiting: ServerResponse[] = []
  const upstream = await recordingUpstream(({ target }, response) => {
    if (target === '/checkouts/now') response.end('now')
    else waiting.push(response)
  })
  return { upstream, waiting, gateway: await gatewayTo(upstream.url, settings) }
}

const statusOf = async (url: string) => (await rawExchange(url, get('/readyz'))).status

describe('while a load balancer has not noticed yet', () => {
  test('because the gateway was never ready, the shutdown does not wait', async () => {
    const { port } = await listening(createServer(() => {}))
    const gateway = await createGateway({
      VALKEY_URL: `redis://127.0.0.1:${port}`,
      VALKEY_TIMEOUT_MS: 500,
      PORT: 0,
      ADMIN_PORT: 0,
    })
    const opened = gateway.listen()
    await gateway.close({ delayMs: veryLongMs })
    await opened
    await (await createGateway({ SWAP_BASE_URL: 'sandbox' })).close({
      delayMs: veryLongMs,
    })
  })

  test('readiness fails at once, and each new connection gets one last answer', async () => {
    const { gateway } = await gatewayThatWaits()
    expect(await statusOf(gateway.operationsUrl)).toBe(200)
    const closed = gateway.close({ delayMs: veryLongMs })
    expect(await statusOf(gateway.operationsUrl)).toBe(503)
    const answer = await rawExchange(gateway.url, get('/checkouts/now'))
    expect([answer.status, answer.body.toString(), connectionOf(answer)]).toEqual([
      200,
      'now',
      ['close'],
    ])
    await gateway.close()
    await closed
  })

  test('a kept connection has one more request served, and its answer says that it was the last', async () => {
    const { gateway, upstream } = await gatewayThatWaits()
    const client = new RawConnection(gateway.url, get('/checkouts/now'))
    expect(connectionOf(await client.answer())).toEqual(['keep-alive'])
    void gateway.close({ delayMs: veryLongMs })
    client.write(`${get('/checkouts/now')}${get('/checkouts/too-late')}`)
    const last = await client.answer()
    expect([last.status, connectionOf(last)]).toEqual([200, ['close']])
    await client.closed()
    expect(client.received.toString()).toBe('')
    expect(upstream.requests.map(({ target }) => target)).not.toContain(
      '/checkouts/too-late',
    )
  })

  test('requests that were pipelined before are all answered, the last with "Connection: close"', async () => {
    const { gateway, waiting } = await gatewayThatWaits()
    const client = new RawConnection(
      gateway.url,
      `${get('/checkouts/1')}${get('/checkouts/now')}`,
    )
    await until(() => waiting.length === 1, 'the first request to arrive')
    void gateway.close({ delayMs: veryLongMs })
    waiting[0]?.end('one')
    const answers = [await client.answer(), await client.answer()]
    expect(answers.map(({ body }) => body.toString())).toEqual(['one', 'now'])
    expect(answers.map(connectionOf)).toEqual([['keep-alive'], ['close']])
  })
})

describe('the end itself', () => {
  test('comes without delay when a library program closes the gateway, and requests in flight are answered', async () => {
    const { gateway, waiting } = await gatewayThatWaits({ DRAIN_DELAY_MS: veryLongMs })
    const client = new RawConnection(gateway.url, get('/checkouts/1'))
    await until(() => waiting.length === 1, 'the request to arrive')
    let closed = false
    const closing = gateway.close().then(() => {
      closed = true
    })
    // A few turns of the loop later, once what had arrived is taken.
    await expect
      .poll(async () => (await rawExchange(gateway.url, get('/checkouts/now'))).status)
      .toBe(0)
    expect((await rawExchange(gateway.operationsUrl, get('/metrics'))).status).toBe(200)
    expect(closed).toBe(false)
    waiting[0]?.end('one')
    expect((await client.answer()).body.toString()).toBe('one')
    await closing
  })

  test('closes connections that are idle or never sent a byte', async () => {
    const longest = { DRAIN_TIMEOUT_MS: veryLongMs, headTimeoutMs: veryLongMs }
    const { gateway } = await gatewayThatWaits(longest)
    const idle = new RawConnection(gateway.url, get('/checkouts/now'))
    await idle.answer()
    const silent = new RawConnection(gateway.url)
    await new Promise((resolve) => silent.socket.once('connect', resolve))
    await gateway.close()
    await Promise.all([idle.closed(), silent.closed()])
  })

  test('is held up by an endless request head only until the deadline of that head', async () => {
    const { gateway } = await gatewayThatWaits({
      headTimeoutMs: 1_000,
      DRAIN_TIMEOUT_MS: veryLongMs,
    })
    const client = new RawConnection(gateway.url, 'GET /checkouts/now HTTP/1.1\r\nHost: ')
    const blank = new RawConnection(gateway.url, '\r\n')
    await pause(100)
    const closed = gateway.close()
    expect((await client.answer()).status).toBe(408)
    await Promise.all([closed, blank.closed()])
  })

  // In a drain every connection takes no more requests: the end of a body that never comes was overlooked there.
  test.each([
    ['that is kept back until it is whole', '/v3/orders/float', false],
    ['that is passed on as it comes', '/checkouts', true],
  ])(
    'does not wait for a client that leaves in the middle of a body %s',
    async (_how, path, isPassedOn) => {
      const { gateway, upstream } = await gatewayThatWaits({
        DRAIN_TIMEOUT_MS: veryLongMs,
      })
      const client = new RawConnection(gateway.url)
      client.write(`POST ${path} HTTP/1.1\r\nHost: g\r\nContent-Length: 100\r\n\r\n{`)
      if (isPassedOn)
        await until(() => upstream.requests.length === 1, 'the request to arrive')
      else await pause(100)
      const closed = gateway.close()
      client.socket.end()
      await Promise.all([closed, client.closed()])
      expect(upstream.requests.filter(({ complete }) => complete)).toHaveLength(0)
    },
  )

  // Node takes a connection for idle as soon as its answer has been handed over, taken or not.
  test('gives a slow client the time to read its answers', async () => {
    const pad = 'x'.repeat(4_000_000)
    const upstream = await recordingUpstream((_request, response) =>
      giveQuote(response, quoteBody({ pad })),
    )
    const gateway = await gatewayTo(upstream.url, { DRAIN_TIMEOUT_MS: veryLongMs })
    const client = new RawConnection(gateway.url)
    client.socket.pause()
    // More than the system holds for a client that reads nothing.
    for (const amount of ['1', '2', '3'])
      client.write(
        `GET ${quotePath}?amount=${amount} HTTP/1.1\r\nHost: g\r\nApp-Name: wallet\r\n\r\n`,
      )
    await until(() => upstream.requests.length >= 1, 'the request to arrive')
    await pause(500)
    const closed = gateway.close()
    await pause(200)
    client.socket.resume()
    for (const connection of ['keep-alive', 'keep-alive', 'close']) {
      const answer = await client.answer()
      expect([answer.status, answer.whole, connectionOf(answer)]).toEqual([
        200,
        true,
        [connection],
      ])
      expect(answer.body.length).toBeGreaterThan(pad.length)
    }
    await closed
  })

  // A body without a length ends with its connection, so an orderly end of that would make half of it look whole.
  test('DRAIN_TIMEOUT_MS cuts what is left, and no half answer looks whole', async () => {
    const { gateway, waiting } = await gatewayThatWaits({ DRAIN_TIMEOUT_MS: 300 })
    const client = new RawConnection(gateway.url, 'GET /checkouts/1 HTTP/1.0\r\n\r\n')
    await until(() => waiting.length === 1, 'the request to arrive')
    waiting[0]?.write('half')
    await until(() => client.received.includes('half'), 'half of the answer')
    await gateway.close()
    await client.closed()
    expect(client.error).toMatchObject({ code: 'ECONNRESET' })
  })

  // The log of every deployment would else name the providers of whatever took too long.
  test('cut requests are broken off, and do not count as failures of the upstream', async () => {
    const { logger, lines } = await keptLog('trace')
    const upstream = await recordingUpstream(() => {})
    const gateway = await gatewayTo(upstream.url, { DRAIN_TIMEOUT_MS: 300 }, { logger })
    for (const path of ['/checkouts/1', `${quotePath}?amount=1`])
      new RawConnection(gateway.url).write(
        `GET ${path} HTTP/1.1\r\nHost: g\r\nApp-Name: wallet\r\n\r\n`,
      )
    await until(() => upstream.requests.length === 2, 'both requests to arrive')
    await gateway.close()
    const [cut, ...brokenOff] = lines()
    expect(cut).toMatchObject({ level: levels.warn, requests: 2 })
    expect(brokenOff.map(({ msg }) => msg)).toEqual([
      'request broken off',
      'request broken off',
    ])
    const metrics = await gateway.metrics()
    expect(metrics).toContain(
      'quotegate_upstream_requests_total{upstream="swap",outcome="given-up"} 1',
    )
    expect(metrics).toContain('quotegate_problems_total{type="upstream-reset"} 0')
  })
})

describe('SIGTERM', () => {
  test('is followed by another signal: it ends at once, with exit code 1', async () => {
    const upstream = await recordingUpstream(() => {})
    const settings = { SWAP_BASE_URL: upstream.url, DRAIN_DELAY_MS: String(veryLongMs) }
    const { url, operationsUrl, ...program } = await startListening(settings)
    new RawConnection(url).write(get('/v3/pairs'))
    await until(() => upstream.requests.length === 1, 'the request to arrive')
    program.child.kill('SIGTERM')
    await untilUnready(operationsUrl)
    await pause(sameKeypressMs + 100)
    program.child.kill('SIGINT')
    expect((await program.exit).code).toBe(1)
    expect(program.stdout()).toContain('second signal: exiting')
  })

  // Ctrl-C goes to npm and to the gateway below it, and npm hands it on: every request in flight was cut.
  test.each(['SIGTERM', 'SIGINT'] as const)(
    'a %s that arrives twice counts as one signal',
    async (signal) => {
      const exit = vi.spyOn(process, 'exit').mockImplementation(() => undefined as never)
      const { logger, lines } = await keptLog()
      onSignalsAndErrors(logger, { close: () => new Promise(() => {}), readAgain() {} })
      onTestFinished(() => {
        exit.mockRestore()
        for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP', 'uncaughtException'])
          process.off(
            name,
            process.listeners(name as NodeJS.Signals).at(-1) ?? (() => {}),
          )
      })
      process.emit(signal, signal)
      process.emit('SIGTERM', 'SIGTERM')
      expect(exit).not.toHaveBeenCalled()
      expect(lines().map(({ msg }) => msg)).toEqual([
        'stopping: answering requests in flight first',
      ])
    },
  )

  async function untilUnready(operationsUrl: string): Promise<void> {
    while ((await statusOf(operationsUrl)) !== 503) await pause(5)
  }
})

test('the time for a load balancer is five seconds in production and 0 elsewhere, unless DRAIN_DELAY_MS is set', () => {
  const production = { NODE_ENV: 'production', SWAP_BASE_URL: 'https://swap.example' }
  const delayMs = (settings = {}) => loadConfig(settings).config.drain.delayMs
  expect([
    delayMs(),
    delayMs(production),
    delayMs({ ...production, DRAIN_DELAY_MS: 0 }),
  ]).toEqual([0, 5_000, 0])
})
