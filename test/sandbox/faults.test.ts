import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import type { Sandbox } from '../../src/sandbox/sandbox.ts'
import { ask, askForQuote, ManualClock, pay, startedSandbox, startMs } from './support.ts'

const setFaults = (sandbox: Sandbox, body: unknown) => ask(sandbox, 'PUT', '/sandbox/faults', { body })

describe('setting faults', () => {
  test('merges new faults with those that are on, and shows the result', async () => {
    const sandbox = await startedSandbox({ quoteLifetimeMs: 5000 })
    expect((await setFaults(sandbox, { latencyMs: 1 })).body).toMatchObject({
      latencyMs: 1,
      quoteLifetimeMs: 5000,
    })
    await setFaults(sandbox, { latencyMs: 0, clockOffsetMs: -30_000 })
    const expected = {
      latencyMs: 0,
      errorRate: 0,
      resetRate: 0,
      cutRate: 0,
      hangRate: 0,
      quoteLifetimeMs: 5000,
      clockOffsetMs: -30_000,
      restrictedPlace: '203.0.113.0/24',
      orderOutcome: 'complete',
      scope: 'all',
    }
    expect((await ask(sandbox, 'GET', '/sandbox/faults')).body).toEqual(expected)
    expect(sandbox.faults()).toEqual(expected)
  })

  test.each([
    [{ errorRate: 2 }, 'errorRate'],
    [{ latencyMs: -1 }, 'latencyMs'],
    [{ latencyMs: '10' }, 'latencyMs'],
    [{ quoteLifetimeMs: 1.5 }, 'quoteLifetimeMs'],
    [{ clockOffsetMs: 1e15 }, 'clockOffsetMs'],
    [{ restrictedPlace: '203.0.113.0/33' }, 'restrictedPlace'],
    [{ restrictedPlace: 'nowhere' }, 'restrictedPlace'],
    [{ scope: 'some' }, 'scope'],
    [{ orderOutcome: 'awaiting' }, 'orderOutcome'],
    [{ latencyMS: 5 }, 'latencyMS'],
  ])('refuses %j, says why and changes nothing', async (bad, named) => {
    const sandbox = await startedSandbox()
    const before = sandbox.faults()
    const { status, body } = await setFaults(sandbox, { hangRate: 0.5, ...bad })
    expect(status).toBe(400)
    expect(body.code).toBe('BAD_FAULTS')
    expect(body.message).toContain(named)
    expect(sandbox.faults()).toEqual(before)
  })

  test('refuses bad faults from code too', async () => {
    await expect(startedSandbox({ faults: { cutRate: -1 } })).rejects.toThrow(/cutRate/)
    const sandbox = await startedSandbox()
    expect(() => sandbox.faults({ cutRate: 7 })).toThrow(/cutRate/)
  })
})

describe('faults', () => {
  test('answer 503 as often as errorRate says', async () => {
    const draws = [0.49, 0.5]
    const sandbox = await startedSandbox({ faults: { errorRate: 0.5 }, random: () => draws.shift() ?? 1 })
    const { status, headers, body } = await askForQuote(sandbox)
    expect(status).toBe(503)
    expect(headers.get('sandbox')).toBe('quotegate')
    expect(body.code).toBe('SERVICE_UNAVAILABLE')
    expect((await askForQuote(sandbox)).status).toBe(200)
  })

  test('add latency', async () => {
    const sandbox = await startedSandbox({ faults: { latencyMs: 80 } })
    const sentAtMs = performance.now()
    await askForQuote(sandbox)
    expect(performance.now() - sentAtMs).toBeGreaterThanOrEqual(75)
  })

  test('reset the connection', async () => {
    const sandbox = await startedSandbox({ faults: { resetRate: 1 } })
    const code = await new Promise((resolve) => {
      httpRequest(`${sandbox.url}/v3/pairs`)
        .on('error', (error: NodeJS.ErrnoException) => resolve(error.code))
        .end()
    })
    expect(code).toBe('ECONNRESET')
    expect(sandbox.requests).toHaveLength(1)
  })

  test('cut an answer in the middle of its promised body', async () => {
    const sandbox = await startedSandbox({ faults: { cutRate: 1 } })
    const { promisedBytes, receivedBytes, code } = await new Promise<Record<string, unknown>>((resolve) => {
      httpRequest(`${sandbox.url}/v3/pairs`, (response) => {
        let received = 0
        response.on('data', (chunk) => {
          received += chunk.length
        })
        response.on('error', (error: NodeJS.ErrnoException) => {
          const promised = Number(response.headers['content-length'])
          resolve({ promisedBytes: promised, receivedBytes: received, code: error.code })
        })
      }).end()
    })
    expect(code).toBe('ECONNRESET')
    expect(receivedBytes).toBe(Math.floor(Number(promisedBytes) / 2))
  })

  test('hang until the client leaves', async () => {
    const sandbox = await startedSandbox({ faults: { hangRate: 1 } })
    const hanging = fetch(`${sandbox.url}/v3/pairs`, { signal: AbortSignal.timeout(100) })
    await expect(hanging).rejects.toThrow(/timeout/i)
  })

  test.each([
    ['swap', 503, 200],
    ['payments', 200, 503],
  ] as const)('apply only to %s when scoped to it', async (scope, swapStatus, paymentsStatus) => {
    const sandbox = await startedSandbox({ faults: { errorRate: 1, scope } })
    expect((await askForQuote(sandbox)).status).toBe(swapStatus)
    expect((await pay(sandbox, 'GET', '/checkouts')).status).toBe(paymentsStatus)
  })

  test('never apply to the control paths', async () => {
    const sandbox = await startedSandbox({ faults: { hangRate: 1 } })
    expect((await setFaults(sandbox, { hangRate: 0 })).status).toBe(200)
    expect((await askForQuote(sandbox)).status).toBe(200)
  })

  test('set the clock off in Date, expiry and creation times', async () => {
    const clock = new ManualClock()
    const sandbox = await startedSandbox({
      clock,
      faults: { clockOffsetMs: -30_000, quoteLifetimeMs: 10_000 },
    })
    const { headers, body } = await askForQuote(sandbox)
    expect(headers.get('date')).toBe(new Date(startMs - 30_000).toUTCString())
    expect(body.expiry).toBe(startMs - 20_000)
    const checkout = await pay(sandbox, 'POST', '/checkouts', {})
    expect(checkout.body.createdAt).toBe(new Date(startMs - 30_000).toISOString())
    const order = { pairId: 'ETH_USDC', fromAmount: 0.1, toAddress: '0xto' }
    expect((await ask(sandbox, 'POST', '/v3/orders/float', { body: order })).status).toBe(201)
    clock.advance(10_000)
    expect((await ask(sandbox, 'POST', '/v3/orders/float', { body: order })).status).toBe(400)
  })
})

describe('closing', () => {
  test('ends hanging, slow and idle connections at once', async () => {
    const sandbox = await startedSandbox({ faults: { hangRate: 1 } })
    const hanging = expect(fetch(`${sandbox.url}/v3/pairs`)).rejects.toThrow()
    await expect.poll(() => sandbox.requests.length).toBe(1)
    sandbox.faults({ hangRate: 0, latencyMs: 600_000 })
    const slow = expect(fetch(`${sandbox.url}/v3/pairs`)).rejects.toThrow()
    await expect.poll(() => sandbox.requests.length).toBe(2)
    const idle = connect(Number(new URL(sandbox.url).port), '127.0.0.1')
    await new Promise((resolve) => idle.once('connect', resolve))
    const gone = new Promise((resolve) => idle.once('close', resolve).resume())
    const closedAtMs = performance.now()
    await sandbox.close()
    await Promise.all([hanging, slow, gone])
    expect(performance.now() - closedAtMs).toBeLessThan(1000)
    await sandbox.close()
  })
})
