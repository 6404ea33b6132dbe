import { connect, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { startGatewayProcess } from '../support/gateways/gateway-process.ts'

const mib = 2 ** 20
const head = (path: string, headers = '') =>
  `GET ${path} HTTP/1.1\r\nHost: g\r\n${headers}\r\n`
/** Never answered, so that whatever is sent behind it waits. */
const unansweredTargets = new Set(['/checkouts/unanswered', '/v3/orders/float'])
const unanswered = head('/checkouts/unanswered')

/** A gateway with the heap limit of a container, and the most that it takes while clients send what they like. */
async function attacked(connections: number, bytes: string) {
  const upstream = await recordingUpstream(({ target }, response) => {
    if (!unansweredTargets.has(target)) response.end('well')
  })
  const gateway = await startGatewayProcess({
    SWAP_BASE_URL: upstream.url,
    PAYMENTS_BASE_URL: upstream.url,
    UPSTREAM_CONNECTIONS: String(connections + 1),
    UPSTREAM_HEADERS_TIMEOUT_MS: '600000',
    headTimeoutMs: '600000',
    LOG_LEVEL: 'info',
    NODE_OPTIONS: '--max-old-space-size=512',
  })
  expect((await rawExchange(gateway.url, head('/checkouts/well'))).status).toBe(200)
  const { hostname, port } = new URL(gateway.url)
  const before = gateway.residentBytes()
  gateway.forgetPeak()
  const sockets: Socket[] = []
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
  })
  for (let count = 0; count < connections; count += 1) {
    const socket = connect({ host: hostname, port: Number(port) })
    socket.on('error', () => {})
    socket.write(bytes)
    sockets.push(socket)
    if (count % 50 === 0) await pause(5)
  }
  // What is not read stays in the sockets, so the test has no write to wait for.
  await pause(1_000)
  await expect
    .poll(async () => (await rawExchange(gateway.url, head('/checkouts/well'))).status)
    .toBe(200)
  const grownBytes = gateway.peakBytes() - before
  return { sockets, grownBytes }
}

// Node's own bound of a head counts bytes, and a header of 6 bytes takes 40 in memory: 95 MB that 2,000 clients sent
// ended a process with 512 MiB of heap.
test('unfinished heads of 7,900 tiny headers take little memory', async () => {
  const bytes = `GET /checkouts HTTP/1.1\r\nHost: g\r\n${'xy:z\r\n'.repeat(7_900)}`
  const { grownBytes } = await attacked(800, bytes)
  expect(grownBytes).toBeLessThan(70 * mib)
}, 120_000)

// 64 heads of 15 KB were read behind an unanswered request: 200 clients made the gateway hold 192 MB.
test('of large requests behind one that has no answer, few are read', async () => {
  const bytes =
    unanswered + head('/checkouts/1', `X-A: ${'a'.repeat(15_000)}\r\n`).repeat(64)
  const { grownBytes } = await attacked(200, bytes)
  expect(grownBytes).toBeLessThan(110 * mib)
}, 120_000)

// A piece that Node has read is parsed to its end, and 64 KiB hold 2,500 requests, each of them 1 KB in memory. A lone
// client is still served (test/promises/nothing-behind-a-refusal).
test('connections with thousands of tiny requests behind one that has no answer are cut if they are many', async () => {
  const bytes = unanswered + 'GET / HTTP/1.1\r\nHost:\r\n\r\n'.repeat(2_400)
  const { sockets, grownBytes } = await attacked(40, bytes)
  await until(
    () => sockets.filter(({ destroyed }) => destroyed).length > 20,
    'most to be cut',
    60_000,
  )
  expect(grownBytes).toBeLessThan(200 * mib)
}, 120_000)

// The parser of orders joins a text from its characters, one by one, and V8 keeps what was joined as a tree of 32 bytes a
// character. With a provider that did not answer, 600 orders of 60 KB ended a process with 512 MiB of heap.
test('orders with a long text take little memory while the provider is slow', async () => {
  const [toAddress, id] = ['x'.repeat(30_000), 'y'.repeat(30_000)]
  const body = JSON.stringify({
    pairId: 'A_B',
    fromAmount: '1',
    toAmount: '2',
    toAddress,
    id,
  })
  const line = 'POST /v3/orders/float HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n'
  const order = `${line}Content-Length: ${body.length}\r\n\r\n${body}`
  const { grownBytes } = await attacked(120, order)
  expect(grownBytes).toBeLessThan(130 * mib)
}, 120_000)
