import { expect, test } from 'vitest'
import { gatewayTo, pause, rawUpstream, until } from '../support/between.ts'
import { startGatewayProcess } from '../support/gateway-process.ts'
import { expectProblem } from '../support/problems.ts'
import { RawConnection } from '../support/raw-connection.ts'

const timeoutMs = 2_000
const body = '{"pairId":"ETH_USDC","fromAmount":0.1}'
const order = `POST /v3/orders/float HTTP/1.1\r\nHost: g\r\nApp-Name: tests\r\nContent-Length: ${body.length}\r\n\r\n${body}`

// A machine that is moved, a container that is paused: timers are over at once, and what came meanwhile is unread.
test('what came while this process stood still is not too late', async () => {
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
    REQUEST_BODY_IDLE_TIMEOUT_MS: String(timeoutMs),
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

test('what came while this process stood still in a drain is answered before the rest is cut', async () => {
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
  await until(() => upstream.received.length === 2, 'both to be on their way')
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

// Sent after its time it would be given up at once, and nobody would know whether the provider took it.
test('an order whose time ran out while it waited for a connection is not sent any more', async () => {
  let answerFirst = () => {}
  const upstream = await rawUpstream((socket) => {
    answerFirst = () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')
  })
  const waitMs = 500
  const gateway = await gatewayTo(upstream.url, {
    UPSTREAM_CONNECTIONS: '1',
    UPSTREAM_TOTAL_TIMEOUT_MS: String(waitMs),
  })
  const first = new RawConnection(gateway.url)
  first.write('GET /v3/assets HTTP/1.1\r\nHost: g\r\n\r\n')
  await until(() => upstream.received.length === 1, 'the first to be on its way')
  const orderer = new RawConnection(gateway.url)
  orderer.write(order)
  await pause(waitMs / 2)
  answerFirst()
  const startedAtMs = performance.now()
  while (performance.now() - startedAtMs < waitMs) {
    // As if the process stood still.
  }
  expect(await first.answer()).toMatchObject({ status: 200 })
  expect(expectProblem(await orderer.answer(), 504, 'upstream-timeout').retryable).toBe(true)
  expect(String(upstream.received)).not.toContain('POST')
})
