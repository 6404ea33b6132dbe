import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { counted } from '../support/clients/quotes.ts'
import { RawConnection } from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  pause,
  recordedGateway,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'

// One that leaves while it waits for a connection is in queue-stress.test.ts and waiting-orders.test.ts.

const get = 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n'
const post =
  'POST /checkouts HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n'

test.each<[string, string, (response: ServerResponse) => void]>([
  ['while the upstream thinks', get, () => {}],
  ['while its answer streams', get, (response) => response.write('some')],
  [
    'after it has stopped reading its answer',
    get,
    (response) => response.end(Buffer.alloc(64 * 1024 * 1024)),
  ],
  ['in the middle of its body', post, () => {}],
])(
  'a client that leaves %s: the connection to the upstream is closed soon',
  async (_when, request, answer) => {
    const { upstream, gateway } = await recordedGateway({}, (_request, response) =>
      answer(response),
    )
    const client = new RawConnection(gateway.url, request)
    client.socket.pause()
    await until(() => upstream.requests.length === 1, 'the request to arrive')
    await pause(200)
    const [connection] = upstream.connections
    expect(connection?.destroyed).toBe(false)
    client.socket.resetAndDestroy()
    // Well before the time that a refused sender is listened to.
    await until(
      () => connection?.destroyed === true,
      'the upstream connection to close',
      request === post ? 1_500 : undefined,
    )
    expect(upstream.requests[0]?.complete).toBe(request === get)
  },
)

// A client that leaves closes its side, and Node then speaks of a request that it could not read.
test.each(['/checkouts', '/v3/orders/float', '/v3/anything'])(
  'a client that closes its side in the middle of its body has left, and sent nothing malformed: %s',
  async (path) => {
    const gateway = await gatewayTo((await recordingUpstream()).url)
    const inFlight = () => counted(gateway, 'quotegate_http_requests_in_flight')
    const client = new RawConnection(gateway.url)
    client.write(
      `POST ${path} HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`,
    )
    await expect.poll(inFlight).toBe(1)
    client.socket.end()
    await until(() => client.ended, 'the end of the connection')
    await expect.poll(inFlight).toBe(0)
    expect(client.received.toString()).toBe('')
    const page = await gateway.metrics()
    expect(page).toMatch(/^quotegate_http_requests_total\{.*status_class="aborted"\} 1$/m)
    expect(page).not.toMatch(/^quotegate_problems_total\{.*\} [1-9]/m)
  },
)

test('a client that has its answer and closes its side in the middle of its body gets nothing more', async () => {
  const gateway = await gatewayTo('http://127.0.0.1:9')
  const client = new RawConnection(gateway.url)
  client.write('POST /nowhere HTTP/1.1\r\nHost: g\r\nContent-Length: 9\r\n\r\nhello')
  expect((await client.answer()).status).toBe(404)
  client.socket.end()
  await client.closed()
  expect(client.received.toString()).toBe('')
  expect(
    await counted(gateway, 'quotegate_problems_total{type="malformed-request"}'),
  ).toBe(0)
})
