import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { asking, giveQuote, quoteBody, quotePath, untilCounted } from '../support/clients/quotes.ts'
import { RawConnection } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream, recordingUpstream, until } from '../support/gateways/between.ts'
import { startGatewayProcess } from '../support/gateways/gateway-process.ts'

const timeoutMs = 2_000
const body = '{"pairId":"ETH_USDC","fromAmount":0.1}'
const order = `POST /v3/orders/float HTTP/1.1\r\nHost: g\r\nApp-Name: tests\r\nContent-Length: ${body.length}\r\n\r\n${body}`

// A machine that is moved, a container that is paused: timers are over at once, and what came meanwhile is unread.
test('an answer that arrived while the process was paused is not too late', async () => {
  const answers: { toOrder?(): void; toPayment?(): void } = {}
  const upstream = await rawUpstream((socket, bytes) => {
    const name = String(bytes).startsWith('POST /v3/') ? 'toOrder' : 'toPayment'
    answers[name] = () => socket.write('HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}')
  })
  const hasCome = (end: string) => upstream.received.some((bytes) => String(bytes).endsWith(end))
  const { url, child } = await startGatewayProcess({
    SWAP_BASE_URL: upstream.url,
    PAYMENTS_BASE_URL: upstream.url,
    UPSTREAM_TOTAL_TIMEOUT_MS: String(timeoutMs),
    bodyIdleTimeoutMs: String(timeoutMs),
    LOG_LEVEL: 'info',
  })
  const orderer = new RawConnection(url)
  const payer = new RawConnection(url)
  payer.write('POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 4\r\n\r\n{')
  orderer.write(order)
  await until(() => hasCome(body) && hasCome('\r\n\r\n{'), 'both to be on their way')
  child.kill('SIGSTOP')
  answers.toOrder?.()
  payer.write('  }')
  await pause(timeoutMs + 500)
  child.kill('SIGCONT')
  expect(await orderer.answer()).toMatchObject({ status: 201 })
  await until(() => hasCome('{  }') || payer.received.length > 0, 'the rest of the payment')
  answers.toPayment?.()
  expect(await payer.answer()).toMatchObject({ status: 201 })
})

test('requests that arrived while the process was paused in a drain are answered before the rest is cut', async () => {
  let answerFirst = () => {}
  const upstream = await rawUpstream((socket, bytes) => {
    if (String(bytes).startsWith('POST /checkouts/first '))
      answerFirst = () => socket.write('HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}')
  })
  const { url, child } = await startGatewayProcess({
    SWAP_BASE_URL: upstream.url,
    PAYMENTS_BASE_URL: upstream.url,
    DRAIN_TIMEOUT_MS: String(timeoutMs),
    LOG_LEVEL: 'info',
  })
  let log = ''
  child.stdout?.on('data', (text) => {
    log += text
  })
  const [first, second] = ['first', 'second'].map((name) => {
    const client = new RawConnection(url)
    client.write(`POST /checkouts/${name} HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}`)
    return client
  }) as [RawConnection, RawConnection]
  await until(() => String(upstream.received).split('{}').length === 3, 'both to be on their way')
  child.kill('SIGTERM')
  await until(() => log.includes('"stopping'), 'the drain to begin')
  child.kill('SIGSTOP')
  answerFirst()
  await pause(timeoutMs + 500)
  child.kill('SIGCONT')
  expect(await first.answer()).toMatchObject({ status: 201 })
  await second.closed()
  await until(() => log.includes('"stopped"'), 'the end')
  expect(log).toContain('"requests":1,"msg":"DRAIN_TIMEOUT_MS has passed')
  expect(log).not.toContain('upstream-reset')
})

test('a client that kept reading while the process was paused gets the rest of its answer', async () => {
  const length = 20_000_000
  const upstream = await rawUpstream((socket) => {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n`)
    socket.write(Buffer.alloc(length))
  })
  const { url, child } = await startGatewayProcess({
    SWAP_BASE_URL: upstream.url,
    PAYMENTS_BASE_URL: upstream.url,
    bodyTimeoutMs: String(timeoutMs),
  })
  const client = connect(Number(new URL(url).port), '127.0.0.1')
  onTestFinished(() => void client.destroy())
  let received = 0
  client.on('data', (chunk) => {
    received += chunk.length
  })
  client.write('GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n')
  await once(client, 'data')
  client.pause()
  // Until nothing more fits in between.
  await pause(timeoutMs / 4)
  child.kill('SIGSTOP')
  client.resume()
  await pause(timeoutMs + 500)
  child.kill('SIGCONT')
  await until(() => received > length || client.destroyed, 'all of it')
  expect(received).toBeGreaterThan(length)
})

test('a refusal reaches a client that sent its body while the process was paused', async () => {
  const { url, child } = await startGatewayProcess({})
  const client = new RawConnection(url)
  client.write('POST /nowhere HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: 40000\r\n\r\n')
  client.write('x'.repeat(1_000))
  // It sends all before it reads, and a reset takes what it has not read.
  client.socket.pause()
  await pause(500)
  child.kill('SIGSTOP')
  client.write('x'.repeat(20_000))
  // More than a client may be silent for (http/answer.ts).
  await pause(2_600)
  child.kill('SIGCONT')
  await pause(200)
  client.write('x'.repeat(19_000))
  await pause(300)
  client.socket.resume()
  expect(await client.answer()).toMatchObject({ status: 404 })
  await client.closed()
})

// Sent when most of its time is over it might be given up, and it would be unknown whether the provider took it.
test('an order that waited for a connection for more than half of its time is not sent', async () => {
  let answerFirst = () => {}
  const upstream = await rawUpstream((socket) => {
    answerFirst = () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')
  })
  const waitMs = 3_000
  const gateway = await gatewayTo(upstream.url, {
    UPSTREAM_CONNECTIONS: '1',
    UPSTREAM_TOTAL_TIMEOUT_MS: String(waitMs),
  })
  const first = new RawConnection(gateway.url)
  first.write('GET /v3/assets HTTP/1.1\r\nHost: g\r\n\r\n')
  await until(() => upstream.received.length === 1, 'the first to be on its way')
  const orderer = new RawConnection(gateway.url)
  orderer.write(order)
  await untilCounted(gateway, 'quotegate_upstream_requests_in_flight{upstream="swap"}', 2)
  answerFirst()
  const startedAtMs = performance.now()
  while (performance.now() - startedAtMs < waitMs / 2) {
    // As if the process stood still.
  }
  expect(await first.answer()).toMatchObject({ status: 200 })
  expect(expectProblem(await orderer.answer(), 503, 'saturated').retryable).toBe(true)
  expect(String(upstream.received)).not.toContain('POST')
})

test('an order whose quote expired while the process was paused is not sent, though its connection became free', async () => {
  let answerFirst = () => {}
  const lifeMs = 3_000
  const upstream = await recordingUpstream((request, response) => {
    if (request.target.startsWith(quotePath)) giveQuote(response, quoteBody({ expiry: Date.now() + lifeMs }))
    else if (request.method === 'GET') answerFirst = () => response.end('first')
    else response.writeHead(201).end()
  })
  const { url, child } = await startGatewayProcess({
    SWAP_BASE_URL: upstream.url,
    PAYMENTS_BASE_URL: upstream.url,
    UPSTREAM_CONNECTIONS: '1',
  })
  await asking(url, '0.1')
  const first = new RawConnection(url)
  first.write('GET /v3/assets HTTP/1.1\r\nHost: g\r\n\r\n')
  await until(() => upstream.requests.length === 2, 'the first to be on its way')
  const orderer = new RawConnection(url)
  orderer.write(post(body))
  await pause(300)
  child.kill('SIGSTOP')
  answerFirst()
  await pause(lifeMs)
  child.kill('SIGCONT')
  expect(await first.answer()).toMatchObject({ status: 200 })
  expectProblem(await orderer.answer(), 409, 'quote-expired')
  expect(upstream.requests.filter(({ method }) => method === 'POST')).toEqual([])
})
