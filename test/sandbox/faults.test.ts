import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { isoAfter, stage, startMs } from './support.ts'

describe('setting faults', () => {
  test('merges new faults with those that are on, and shows the result', async () => {
    const { sandbox, get, setFaults } = await stage({ quoteLifetimeMs: 5000 })
    expect((await setFaults({ latencyMs: 1 })).body).toMatchObject({
      latencyMs: 1,
      quoteLifetimeMs: 5000,
    })
    await setFaults({ latencyMs: 0, clockOffsetMs: -30_000 })
    const expected = {
      latencyMs: 0,
      errorRate: 0,
      resetRate: 0,
      cutRate: 0,
      hangRate: 0,
      quoteLifetimeMs: 5000,
      quoteAmounts: 'strings',
      clockOffsetMs: -30_000,
      restrictedPlace: '203.0.113.0/24',
      orderOutcome: 'complete',
      scope: 'all',
    }
    expect((await get('/sandbox/faults')).body).toEqual(expected)
    expect(sandbox.faults()).toEqual(expected)
  })

  test.each([
    [{ errorRate: 2 }, 'errorRate'],
    [{ latencyMs: -1 }, 'latencyMs'],
    [{ latencyMs: '10' }, 'latencyMs'],
    [{ quoteLifetimeMs: 1.5 }, 'quoteLifetimeMs'],
    [{ clockOffsetMs: 1e15 }, 'clockOffsetMs'],
    [{ restrictedPlace: '203.0.113.0/33' }, 'restrictedPlace'],
    [{ scope: 'some' }, 'scope'],
    [{ quoteAmounts: 'doubles' }, 'quoteAmounts'],
    [{ orderOutcome: 'awaiting' }, 'orderOutcome'],
    [{ latencyMS: 5 }, 'latencyMS'],
  ])('refuses %j, says why and changes nothing', async (bad, named) => {
    const { sandbox, setFaults } = await stage()
    const before = sandbox.faults()
    const { status, body } = await setFaults({ hangRate: 0.5, ...bad })
    expect([status, body.code]).toEqual([400, 'BAD_FAULTS'])
    expect(body.message).toContain(named)
    expect(sandbox.faults()).toEqual(before)
  })
})

describe('faults', () => {
  test('answer 503 as often as errorRate says', async () => {
    const draws = [0.49, 0.5]
    const { quote } = await stage({
      faults: { errorRate: 0.5 },
      random: () => draws.shift() ?? 1,
    })
    const { status, headers, body } = await quote()
    expect([status, headers.get('sandbox'), body.code]).toEqual([
      503,
      'quotegate',
      'SERVICE_UNAVAILABLE',
    ])
    expect((await quote()).status).toBe(200)
  })

  test('add latency', async () => {
    const { quote } = await stage({ faults: { latencyMs: 80 } })
    const sentAtMs = performance.now()
    await quote()
    expect(performance.now() - sentAtMs).toBeGreaterThanOrEqual(75)
  })

  test('reset the connection', async () => {
    const { sandbox } = await stage({ faults: { resetRate: 1 } })
    const [error] = await once(httpRequest(`${sandbox.url}/v3/pairs`).end(), 'error')
    expect(error.code).toBe('ECONNRESET')
    expect(sandbox.requests).toHaveLength(1)
  })

  test('cut an answer in the middle of its promised body', async () => {
    const { sandbox } = await stage({ faults: { cutRate: 1 } })
    const [response] = await once(
      httpRequest(`${sandbox.url}/v3/pairs`).end(),
      'response',
    )
    let receivedBytes = 0
    const read = async () => {
      for await (const chunk of response) receivedBytes += chunk.length
    }
    await expect(read()).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(receivedBytes).toBe(Math.floor(Number(response.headers['content-length']) / 2))
  })

  test.each([
    ['swap', 503, 200],
    ['payments', 200, 503],
  ] as const)(
    'apply only to %s when scoped to it',
    async (scope, swapStatus, paymentsStatus) => {
      const { quote, pay } = await stage({ faults: { errorRate: 1, scope } })
      expect((await quote()).status).toBe(swapStatus)
      expect((await pay('GET', '/checkouts')).status).toBe(paymentsStatus)
    },
  )

  test('hang until the caller leaves, and never apply to the control paths', async () => {
    const { sandbox, setFaults, quote } = await stage({ faults: { hangRate: 1 } })
    const hanging = fetch(`${sandbox.url}/v3/pairs`, { signal: AbortSignal.timeout(100) })
    await expect(hanging).rejects.toThrow(/timeout/i)
    expect((await setFaults({ hangRate: 0 })).status).toBe(200)
    expect((await quote()).status).toBe(200)
  })

  test('set the clock off in Date, expiry and creation times', async () => {
    const faults = { clockOffsetMs: -30_000, quoteLifetimeMs: 10_000 }
    const { clock, quote, order, pay } = await stage({ faults })
    const { headers, body } = await quote()
    expect(headers.get('date')).toBe(new Date(startMs - 30_000).toUTCString())
    expect(body.expiry).toBe(startMs - 20_000)
    expect((await pay('POST', '/checkouts', {})).body.createdAt).toBe(isoAfter(-30_000))
    const terms = { pairId: 'ETH_USDC', fromAmount: 0.1, toAddress: '0xto' }
    expect((await order(terms)).status).toBe(201)
    clock.ms += 10_000
    expect((await order(terms)).status).toBe(400)
  })
})

test('closing ends hanging, slow and idle connections at once', async () => {
  const { sandbox } = await stage({ faults: { hangRate: 1 } })
  const hanging = expect(fetch(`${sandbox.url}/v3/pairs`)).rejects.toThrow()
  await expect.poll(() => sandbox.requests.length).toBe(1)
  sandbox.faults({ hangRate: 0, latencyMs: 600_000 })
  const slow = expect(fetch(`${sandbox.url}/v3/pairs`)).rejects.toThrow()
  await expect.poll(() => sandbox.requests.length).toBe(2)
  const idle = connect(Number(new URL(sandbox.url).port), '127.0.0.1')
  await once(idle, 'connect')
  const gone = once(idle.resume(), 'close')
  const closedAtMs = performance.now()
  await sandbox.close()
  await Promise.all([hanging, slow, gone])
  expect(performance.now() - closedAtMs).toBeLessThan(1000)
  await sandbox.close()
})
