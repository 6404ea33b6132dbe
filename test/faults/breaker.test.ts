import { describe, expect, test } from 'vitest'
import { proxyStatus } from '../support/clients/problems.ts'
import { RawConnection, rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import { pause, rawUpstream, recordingUpstream, until } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'
import { faultyUpstream, timesSeen } from '../support/upstreams/faulty-upstream.ts'

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`
const nobody = 'http://127.0.0.1:9'
const limits = { breakerFailures: 3, retries: 0, headersTimeoutMs: 50, connectTimeoutMs: 300 }

describe('on the swap side', () => {
  test.each(['/reset', '/close', '/half-head', '/cut', '/silent', '/502', '/503', '/504'])(
    '%s counts: three in a row open the breaker, two do not',
    async (path) => {
      const upstream = await faultyUpstream()
      const edge = await edgeTo(upstream.url, limits)
      for (const request of [path, path, '/ok', path, path]) await rawExchange(edge.url, get(request))
      expect(edge.states).toEqual([])
      await rawExchange(edge.url, get(path))
      expect(edge.states).toEqual(['rest open'])
    },
  )

  test.each(['/200', '/400', '/404', '/429', '/500', '/501', '/garbage'])(
    '%s does not count: the upstream works',
    async (path) => {
      const upstream = await faultyUpstream()
      const edge = await edgeTo(upstream.url, limits)
      for (let count = 0; count < 10; count += 1) await rawExchange(edge.url, get(path))
      expect(edge.states).toEqual([])
    },
  )

  test('failures to connect count', async () => {
    const edge = await edgeTo(nobody, limits)
    for (let count = 0; count < 3; count += 1) await rawExchange(edge.url, get('/'))
    expect(edge.states).toEqual(['connections open'])
  })
})

describe.each(['payments', 'webhooks'] as const)('on the %s side', (name) => {
  test.each(['/reset', '/close', '/half-head', '/cut', '/silent', '/500', '/502', '/503', '/504'])(
    '%s does not count: the connection was made',
    async (path) => {
      const upstream = await faultyUpstream()
      const edge = await edgeTo(upstream.url, limits, { name })
      for (let count = 0; count < 5; count += 1) await rawExchange(edge.url, get(path))
      expect(edge.states).toEqual([])
    },
  )

  test.each([
    ['a refused connection', () => nobody],
    ['a name that does not resolve', () => 'http://nobody.invalid'],
    ['a handshake that is not answered', (port: number) => `https://127.0.0.1:${port}`],
  ])('%s counts', async (_what, urlOf) => {
    const upstream = await rawUpstream(() => {})
    const edge = await edgeTo(urlOf(upstream.port), limits, { name })
    for (let count = 0; count < 3; count += 1) await rawExchange(edge.url, get('/'))
    expect(edge.states).toEqual(['connections open'])
  })
})

test('a request that failed in every try is one failure', async () => {
  const upstream = await faultyUpstream()
  const edge = await edgeTo(upstream.url, { breakerFailures: 2, retries: 3 })
  await rawExchange(edge.url, get('/reset'))
  expect([upstream.requests.length, edge.retries, edge.states]).toEqual([4, 3, []])
  await rawExchange(edge.url, get('/reset'))
  expect(edge.states).toEqual(['rest open'])
})

test('a request that succeeded in its second try is not a failure', async () => {
  let fail = true
  const upstream = await recordingUpstream((_request, response) => {
    if (fail) response.socket?.resetAndDestroy()
    else response.end('ok')
    fail = !fail
  })
  const edge = await edgeTo(upstream.url, { breakerFailures: 1 })
  for (let count = 0; count < 3; count += 1) {
    expect((await rawExchange(edge.url, get('/'))).status).toBe(200)
  }
  expect([edge.retries, edge.states]).toEqual([3, []])
})

test('a client that leaves is neither a failure nor a success', async () => {
  const upstream = await faultyUpstream()
  const edge = await edgeTo(upstream.url, { ...limits, headersTimeoutMs: 10_000 })
  const leave = async (path: string) => {
    const before = upstream.requests.length
    const client = new RawConnection(edge.url)
    client.write(get(path))
    await until(() => upstream.requests.length > before, 'the request to arrive')
    client.socket.destroy()
    await until(() => edge.upstream.inFlight === 0, 'it to be given up')
  }
  for (let count = 0; count < 5; count += 1) await leave('/silent')
  expect(edge.states).toEqual([])
  await rawExchange(edge.url, get('/reset'))
  await rawExchange(edge.url, get('/reset'))
  await leave('/silent')
  await rawExchange(edge.url, get('/reset'))
  expect(edge.states).toEqual(['rest open'])
})

describe('an open breaker', () => {
  const brief = { ...limits, headersTimeoutMs: 10_000, breakerFailures: 1, breakerOpenMs: 300, retries: 5 }

  test('answers 503 with Retry-After without asking the upstream', async () => {
    const upstream = await faultyUpstream()
    const edge = await edgeTo(upstream.url, { ...brief, breakerOpenMs: 20_000 })
    await rawExchange(edge.url, get('/503'))
    const answer = await rawExchange(edge.url, get('/refused'))
    expect(JSON.parse(answer.body.toString())).toMatchObject({ status: 503, retryable: true })
    expect(proxyStatus(answer)).toBe('quotegate; error=destination_unavailable')
    const retryAfter = Number(valuesOf(answer.rawHeaders, 'retry-after')[0])
    expect(retryAfter).toBeGreaterThanOrEqual(1)
    expect(retryAfter).toBeLessThanOrEqual(20)
    expect(timesSeen(upstream, '/refused')).toBe(0)
  })

  test('after breakerOpenMs lets exactly one of many try, and all once that one is answered', async () => {
    const waiting: (() => void)[] = []
    const upstream = await recordingUpstream((request, response) => {
      if (request.target === '/503') response.writeHead(503).end()
      else waiting.push(() => response.end('ok'))
    })
    const edge = await edgeTo(upstream.url, brief)
    await rawExchange(edge.url, get('/503'))
    await pause(350)
    const answers = Array.from({ length: 12 }, () => rawExchange(edge.url, get('/trial')))
    await until(
      () => edge.outcomes.filter((outcome) => outcome === 'breaker_open').length === 11,
      'the refusals',
    )
    await until(() => waiting.length === 1, 'the one that tries')
    waiting[0]?.()
    const statuses = (await Promise.all(answers)).map(({ status }) => status)
    expect(statuses.toSorted()).toEqual([200, ...Array(11).fill(503)])
    expect(edge.states).toEqual(['rest open', 'rest half-open', 'rest closed'])
    expect(timesSeen(upstream, '/trial')).toBe(1)
  })

  test('opens for the same time again if that request fails, after a single try', async () => {
    const upstream = await faultyUpstream()
    const edge = await edgeTo(upstream.url, brief)
    await rawExchange(edge.url, get('/503'))
    await pause(350)
    expect((await rawExchange(edge.url, get('/reset'))).status).toBe(502)
    expect(timesSeen(upstream, '/reset')).toBe(1)
    expect((await rawExchange(edge.url, get('/ok'))).status).toBe(503)
    expect(edge.states).toEqual(['rest open', 'rest half-open', 'rest open'])
  })

  test('lets another request try at once if the client of the trial leaves', async () => {
    const upstream = await faultyUpstream()
    const edge = await edgeTo(upstream.url, brief)
    await rawExchange(edge.url, get('/503'))
    await pause(350)
    for (let count = 1; count <= 3; count += 1) {
      const client = new RawConnection(edge.url)
      client.write(get('/silent'))
      await until(() => timesSeen(upstream, '/silent') === count, 'the one that tries')
      client.socket.destroy()
      await until(() => edge.upstream.inFlight === 0, 'it to be given up')
    }
    expect((await rawExchange(edge.url, get('/ok'))).status).toBe(200)
    expect(edge.states).toEqual(['rest open', 'rest half-open', 'rest closed'])
  })

  test('closes when the answer to the trial begins, not when a slow client has read it all', async () => {
    const upstream = await faultyUpstream()
    const edge = await edgeTo(upstream.url, brief)
    await rawExchange(edge.url, get('/503'))
    await pause(350)
    const slow = new RawConnection(edge.url)
    slow.write(get('/stream'))
    await until(() => slow.received.length > 0, 'the answer to begin')
    expect((await rawExchange(edge.url, get('/ok'))).status).toBe(200)
  })

  test('is not opened again by requests from before the outage that time out after it', async () => {
    const upstream = await faultyUpstream()
    const edge = await edgeTo(upstream.url, { ...brief, headersTimeoutMs: 1_500, connections: 10 })
    const old = Array.from({ length: 4 }, () => rawExchange(edge.url, get('/silent')))
    await until(() => timesSeen(upstream, '/silent') === 4, 'the old ones to be under way')
    await rawExchange(edge.url, get('/503'))
    await pause(350)
    expect((await rawExchange(edge.url, get('/ok'))).status).toBe(200)
    expect((await Promise.all(old)).map(({ status }) => status)).toEqual(Array(4).fill(504))
    expect(edge.states).toEqual(['rest open', 'rest half-open', 'rest closed'])
  })
})
