import { describe, expect, test } from 'vitest'
import { attack, attackedGateway, expectRefusal } from '../support/clients/attack.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { get, RawConnection, valuesOf } from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  pause,
  recordedGateway,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'

const upgrade = 'Connection: Upgrade\r\nUpgrade: h2c\r\n'
const post = (path: string, headers = '') =>
  `POST ${path} HTTP/1.1\r\nHost: g\r\n${headers}Transfer-Encoding: chunked\r\n\r\n`
const goodChunk = '2\r\n{"\r\n'
const noChunk = 'zz\r\n'

const paths = ['/checkouts/broken', '/v3/orders/float']

// The body idle timeout ends such a request as well, with 408: the 400 shows that nothing waited for it.
describe('a malformed chunk is answered at once', () => {
  const shared = attackedGateway({}, { atOnce: true })
  const cases = ['', upgrade].flatMap((headers) =>
    paths.flatMap((path) => [0, 100].map((waitMs) => ({ headers, path, waitMs }))),
  )

  test.concurrent.each(cases)(
    'with $headers at $path, $waitMs ms after its head',
    async ({ headers, path, waitMs }) => {
      const good = post(path, headers) + goodChunk
      const steps = waitMs === 0 ? good + noChunk : [good, waitMs, noChunk]
      expectRefusal(await attack(shared.url, steps), 400, 'malformed-request')
      expect(
        shared.received.filter(({ complete, body }) => complete && body.length > 0),
      ).toEqual([])
    },
  )

  test.concurrent.each(['', upgrade])(
    'behind the answers in front of it, with %j',
    async (headers) => {
      const front = '/checkouts/front?delay=100'
      const { answers } = await attack(
        shared.url,
        get(front) + post('/checkouts/behind', headers) + goodChunk + noChunk,
      )
      expect(answers.map(({ status }) => status)).toEqual([200, 400])
      expect(answers[0]?.body).toBe(front)
    },
  )

  // Its head has gone out, so the end of the connection is all that can still say so.
  test.each(['', upgrade])(
    'by the end of an answer that has begun, with %j',
    async (headers) => {
      const upstream = await recordingUpstream(undefined, {
        listener: (request, response) => {
          request.resume()
          response.write('begun')
        },
      })
      const gateway = await gatewayTo(upstream.url)
      const client = new RawConnection(gateway.url)
      // Longer than what is read before the upstream is called.
      client.write(post('/checkouts/long', headers))
      client.write(`20000\r\n${'x'.repeat(0x20000)}\r\n`)
      await until(() => client.received.includes('begun'), 'the answer to begin')
      client.write(noChunk)
      await client.closed()
      expect((await client.answer()).whole).toBe(false)
    },
  )
})

// What notices the broken bodies must not mistake a piece of a good one for them.
test('a chunked body behind an Upgrade is relayed, however it is cut into pieces', async () => {
  const { gateway, upstream } = await recordedGateway()
  const body = '2;a=b\r\n{"\r\n3\r\na":\r\n2\r\n1}\r\n0\r\nX-T: u\r\n\r\n'
  for (const size of [body.length, 7, 1]) {
    const client = new RawConnection(gateway.url, post('/checkouts/good', upgrade))
    for (let from = 0; from < body.length; from += size) {
      client.write(body.slice(from, from + size))
      await pause(2)
    }
    expect((await client.answer()).status).toBe(200)
  }
  expect(upstream.requests.map((request) => request.body.toString())).toEqual(
    Array.from({ length: 3 }, () => '{"a":1}'),
  )
})

describe('a malformed chunk during a shutdown', () => {
  /** Far longer than a test may take. */
  const veryLongMs = 600_000

  test.each([
    ['', '/checkouts/broken'],
    ['', '/v3/orders/float'],
    [upgrade, '/v3/orders/float'],
  ])('is answered at once and holds nothing up, with %j at %s', async (headers, path) => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url, { DRAIN_TIMEOUT_MS: veryLongMs })
    const client = new RawConnection(gateway.url, post(path, headers) + goodChunk)
    await pause(100)
    const closed = gateway.close()
    client.write(noChunk)
    const answer = await client.answer()
    expectProblem(answer, 400, 'malformed-request')
    expect(valuesOf(answer.rawHeaders, 'connection')).toEqual(['close'])
    await Promise.all([closed, client.closed()])
    expect(upstream.requests.filter(({ complete }) => complete)).toEqual([])
  })

  test('does not replace the answer to a whole request', async () => {
    const { gateway } = await recordedGateway({}, ({ target }, response) => {
      setTimeout(() => response.end(target), 300)
    })
    const client = new RawConnection(gateway.url, get('/checkouts/whole'))
    await pause(100)
    const closed = gateway.close()
    client.write(`${noChunk}\r\n`)
    expect((await client.answer()).body.toString()).toBe('/checkouts/whole')
    await Promise.all([closed, client.closed()])
    expect(client.received.toString()).toBe('')
  })
})
