import { expect, test } from 'vitest'
import { RawConnection } from '../support/clients/raw-connection.ts'
import { pause, rawUpstream, until } from '../support/gateways/between.ts'
import { startGatewayProcess } from '../support/gateways/gateway-process.ts'

const timeoutMs = 2_000
const body = '{"pairId":"ETH_USDC","fromAmount":0.1}'
const order = `POST /v3/orders/float HTTP/1.1\r\nHost: g\r\nApp-Name: tests\r\nContent-Length: ${body.length}\r\n\r\n${body}`

// A machine that is moved, a container that is paused: timers are over at once, and what came meanwhile is unread. Orders
// that waited for a connection meanwhile are in waiting-for-a-connection.test.ts and in waiting-orders.test.ts.
test('an answer that arrived while the process was paused is not too late', async () => {
  const answers: { toOrder?(): void; toPayment?(): void } = {}
  const upstream = await rawUpstream((socket, bytes) => {
    const name = String(bytes).startsWith('POST /v3/') ? 'toOrder' : 'toPayment'
    answers[name] = () =>
      socket.write('HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}')
  })
  const hasCome = (end: string) =>
    upstream.received.some((bytes) => String(bytes).endsWith(end))
  const { url, child } = await startGatewayProcess({
    SWAP_BASE_URL: upstream.url,
    PAYMENTS_BASE_URL: upstream.url,
    UPSTREAM_TOTAL_TIMEOUT_MS: String(timeoutMs),
    bodyIdleTimeoutMs: String(timeoutMs),
    LOG_LEVEL: 'info',
  })
  const orderer = new RawConnection(url, order)
  const payer = new RawConnection(
    url,
    'POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 4\r\n\r\n{',
  )
  await until(() => hasCome(body) && hasCome('\r\n\r\n{'), 'both to be on their way')
  child.kill('SIGSTOP')
  answers.toOrder?.()
  payer.write('  }')
  await pause(timeoutMs + 500)
  child.kill('SIGCONT')
  expect(await orderer.answer()).toMatchObject({ status: 201 })
  await until(
    () => hasCome('{  }') || payer.received.length > 0,
    'the rest of the payment',
  )
  answers.toPayment?.()
  expect(await payer.answer()).toMatchObject({ status: 201 })
})

test('requests that arrived while the process was paused in a drain are answered before the rest is cut', async () => {
  let answerFirst = () => {}
  const upstream = await rawUpstream((socket, bytes) => {
    if (String(bytes).startsWith('POST /checkouts/first '))
      answerFirst = () =>
        socket.write('HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}')
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
    client.write(
      `POST /checkouts/${name} HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}`,
    )
    return client
  }) as [RawConnection, RawConnection]
  await until(
    () => String(upstream.received).split('{}').length === 3,
    'both to be on their way',
  )
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

test('a refusal reaches a client that sent its body while the process was paused', async () => {
  const { url, child } = await startGatewayProcess({})
  const client = new RawConnection(url)
  client.write(
    'POST /nowhere HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: 40000\r\n\r\n',
  )
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
