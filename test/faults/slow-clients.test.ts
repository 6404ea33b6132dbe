import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { expectProblem } from '../support/clients/problems.ts'
import { ask, counted, giveQuote, keepAliveAgent, quotePath } from '../support/clients/quotes.ts'
import { RawConnection, rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { killPrograms, startProgram } from '../support/gateways/program.ts'

afterEach(killPrograms)

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`
const unfinished = (line: string, rest = 'Content-Length: 500\r\n\r\n{') =>
  `${line} HTTP/1.1\r\nHost: g\r\nApp-Name: slow\r\n${rest}`

describe('CLIENT_CONNECTIONS', () => {
  test('a connection beyond the limit gets a 503 with Retry-After and is counted; a freed place is used again', async () => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url, { CLIENT_CONNECTIONS: 3 })
    const taken = Array.from({ length: 3 }, () => new RawConnection(gateway.url))
    for (const connection of taken) {
      connection.write(get('/checkouts'))
      expect((await connection.answer()).status).toBe(200)
    }

    const refused = new RawConnection(gateway.url)
    refused.write('POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 4\r\n\r\nbody')
    const answer = await refused.answer()
    await refused.closed()
    expect(answer).toMatchObject({ status: 503, whole: true })
    expect(valuesOf(answer.rawHeaders, 'retry-after')).toEqual(['1'])
    expect(valuesOf(answer.rawHeaders, 'connection')).toEqual(['close'])
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      type: 'urn:quotegate:problem:too-many-connections',
      retryable: true,
      requestId: valuesOf(answer.rawHeaders, 'x-request-id')[0],
    })
    expect(await counted(gateway, 'quotegate_problems_total{type="too-many-connections"}')).toBe(1)
    expect(upstream.requests).toHaveLength(3)

    taken[0]?.write(get('/checkouts'))
    expect((await taken[0]?.answer())?.status).toBe(200)
    taken[1]?.socket.destroy()
    await until(() => upstream.connections.size > 0, 'the upstream')
    let status = 503
    while (status === 503) status = (await rawExchange(gateway.url, get('/checkouts'))).status
    expect(status).toBe(200)
  })
})

describe('bodyIdleTimeoutMs', () => {
  test.each([
    ['a payment', 'POST /checkouts'],
    ['a float order', 'POST /v3/orders/float'],
    ['an order', 'POST /v3/orders'],
    ['a swap request', 'PUT /v3/other'],
  ])('%s whose body stalls is answered with 408, and its connection is closed', async (_name, line) => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url, { bodyIdleTimeoutMs: 200 })
    for (const bytes of [
      unfinished(line),
      unfinished(line, 'Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'),
    ]) {
      const client = new RawConnection(gateway.url)
      client.write(bytes)
      const answer = await client.answer()
      expect(expectProblem(answer, 408, 'request-timeout').retryable).toBe(true)
      expect(valuesOf(answer.rawHeaders, 'connection')).toEqual(['close'])
      await client.closed()
    }
    expect(upstream.requests.some(({ complete }) => complete)).toBe(false)
  })

  test.each([
    ['a quote', `GET ${quotePath}?amount=0.1`, 200],
    ['a path that is not there', 'POST /nowhere', 404],
    ['a method that a quote has not', `POST ${quotePath}?amount=0.1`, 405],
  ])('%s is answered without its body, and the gateway stops waiting for it', async (_name, line, status) => {
    const upstream = await recordingUpstream((_request, response) => giveQuote(response))
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(unfinished(line))
    expect((await client.answer()).status).toBe(status)
    await client.closed()
  })
})

/** 2,000 clients that each hold on to something: a head that trickles in, a body, an answer that is not read. */
function beSlow(url: string): Socket[] {
  const says = [
    ...Array<string>(800).fill(`GET ${quotePath}?amount=1 HTTP/1.1\r\nHost: g\r\n`),
    ...Array<string>(200).fill(unfinished('POST /v3/orders/float')),
    ...Array<string>(200).fill(unfinished(`GET ${quotePath}?amount=0.1`)),
    ...Array<string>(200).fill(unfinished('POST /checkouts')),
    ...Array<string>(600).fill(get('/checkouts/large')),
  ]
  const sockets = says.map((text) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    // Nothing that comes is ever taken.
    socket.on('error', () => {}).pause()
    socket.write(text)
    return socket
  })
  const trickle = setInterval(() => {
    for (const socket of sockets.slice(0, 800)) if (socket.writable) socket.write('X')
  }, 500)
  onTestFinished(() => {
    clearInterval(trickle)
    for (const socket of sockets) socket.destroy()
  })
  return sockets
}

test('2,000 slow clients do not disturb a fast client', async () => {
  const large = Buffer.alloc(8 * 1_024 * 1_024)
  const upstream = await recordingUpstream(({ target }, response) => {
    if (target === '/checkouts/large') response.end(large)
    else if (target.startsWith(quotePath)) giveQuote(response)
    else response.end('[]')
  })
  const program = startProgram([], {
    PORT: '0',
    ADMIN_PORT: '0',
    LOG_FORMAT: 'json',
    SWAP_BASE_URL: upstream.url,
    PAYMENTS_BASE_URL: upstream.url,
  })
  const url = (await program.says(/"trafficUrl":"(.+?)"/))[1] ?? ''
  const agent = keepAliveAgent(1)

  async function latencies(path: string): Promise<{ median: number; p99: number }> {
    const taken: number[] = []
    for (let count = 0; count < 1_000; count += 1) {
      const startedAtMs = performance.now()
      expect((await ask(url, { path, agent })).status).toBe(200)
      taken.push(performance.now() - startedAtMs)
    }
    taken.sort((left, right) => left - right)
    return { median: taken[500] ?? 0, p99: taken[990] ?? 0 }
  }

  const paths = { 'cached quote': `${quotePath}?amount=0.1`, 'pass-through': '/v3/pairs' }
  await latencies(paths['cached quote'])
  await latencies(paths['pass-through'])
  const aloneMs = [await latencies(paths['cached quote']), await latencies(paths['pass-through'])]
  const slow = beSlow(url)
  await until(() => slow.every((socket) => !socket.connecting), 'the slow clients to connect')
  await pause(500)
  for (const [index, [name, path]] of Object.entries(paths).entries()) {
    const beside = await latencies(path)
    const before = aloneMs[index] ?? beside
    const ratio = beside.median / before.median
    // biome-ignore lint/suspicious/noConsole: the figures are what this test is read for.
    console.log(
      `${name}: median ${before.median.toFixed(2)} ms alone, ${beside.median.toFixed(2)} ms beside (x${ratio.toFixed(2)}); ` +
        `p99 ${before.p99.toFixed(2)} and ${beside.p99.toFixed(2)} ms`,
    )
    expect(ratio).toBeLessThan(10)
  }
  expect(slow.filter((socket) => !socket.destroyed).length).toBeGreaterThan(1_000)
})
