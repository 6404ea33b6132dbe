import { expect, onTestFinished, test } from 'vitest'
import type { SettingValue } from '../../src/config/problems.ts'
import type { GatewayOverrides } from '../../src/gateway/types.ts'
import { counted, giveQuote, lookups, quoteBody, quotePath } from '../support/clients/quotes.ts'
import { type ParsedAnswer, RawConnection, valuesOf } from '../support/clients/raw-connection.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'

// A hit is answered within the call that brought its request. Whatever comes on the same connection before or after it,
// cut anywhere, is one request after another.

const lines = 'Host: gateway\r\nApp-Name: wallet\r\n'
const head = (amount: string, more = '') =>
  `GET ${quotePath}?amount=${amount} HTTP/1.1\r\n${lines}${more}\r\n`

async function started(settings: Record<string, SettingValue> = {}, overrides: GatewayOverrides = {}) {
  const clock = overrides.clock ?? { nowMs: Date.now }
  const upstream = await recordingUpstream(({ method, target }, response) => {
    const nowMs = clock.nowMs()
    if (method !== 'GET' || !target.startsWith('/v3/pairs')) response.end(target)
    else giveQuote(response, quoteBody({ expiry: nowMs + 30_000 }), ['Date', new Date(nowMs).toUTCString()])
  })
  const gateway = await startGateway(
    { SWAP_BASE_URL: upstream.url, PAYMENTS_BASE_URL: upstream.url, ...settings },
    overrides,
  )
  onTestFinished(() => gateway.close())
  return { gateway, upstream }
}

async function asked(connection: RawConnection, bytes: string): Promise<ParsedAnswer> {
  connection.write(bytes)
  return connection.answer()
}

/** A connection that has had hits. */
async function knownTo(url: string, bytes: string = head('1')): Promise<RawConnection> {
  const connection = new RawConnection(url)
  for (let time = 0; time < 4; time += 1) await asked(connection, bytes)
  return connection
}

const howOf = ({ rawHeaders }: ParsedAnswer) => valuesOf(rawHeaders, 'cache-status')[0]?.split('; ')[1]
/** All of an answer that is the same for the same quote within a second or two. */
const lasting = ({ status, rawHeaders, body }: ParsedAnswer) => ({
  status,
  body: body.toString(),
  headers: rawHeaders.map((text) =>
    text.replace(/(?<=max-age=|ttl=)\d+|[\da-f-]{36}/g, 'n').replace(/^\w{3}, .* GMT$/, 'now'),
  ),
})

test('a hit is answered like the hit before it', async () => {
  const { gateway } = await started()
  const connection = new RawConnection(gateway.url)
  await asked(connection, head('1'))
  const byNode = await asked(connection, head('1'))
  for (let time = 0; time < 2; time += 1) await asked(connection, head('1'))
  for (const amount of ['1', '1.0', '01']) {
    expect(lasting(await asked(connection, head(amount)))).toEqual(lasting(byNode))
  }
  expect(await counted(gateway, lookups('hit'))).toBe(6)
  const answers = 'quotegate_http_requests_total{route="quote",method="GET",status_class="2xx"}'
  expect(await counted(gateway, answers)).toBe(7)
  expect(await counted(gateway, 'quotegate_http_requests_in_flight')).toBe(0)
})

test('a refusal is the same as elsewhere', async () => {
  const { gateway } = await started()
  const connection = await knownTo(gateway.url)
  for (const amount of ['-1', '', '1&amount=2', '%31', 'x']) {
    const elsewhere = await asked(new RawConnection(gateway.url), head(amount))
    const here = await asked(connection, head(amount))
    expect([amount, here.status]).toEqual([amount, elsewhere.status])
  }
  // Empty parameters change nothing about a quote, but a target may be too long.
  expect((await asked(connection, head(`1${'&'.repeat(9_000)}`))).status).toBe(414)
  const dotted = await asked(await knownTo(gateway.url), head('1').replace('/v3', '/v3/..'))
  expect(dotted.status).toBe(400)
})

test('other header lines are another request', async () => {
  const { gateway, upstream } = await started()
  const connection = await knownTo(gateway.url)
  const others = head('1').replace('wallet', 'others')
  expect(howOf(await asked(connection, others))).toBe('fwd=uri-miss')
  expect(upstream.requests.map(({ headers }) => headers['app-name'])).toEqual(['wallet', 'others'])
  // Known again behind two hits of its own.
  for (let time = 0; time < 3; time += 1) await asked(connection, others)
  expect(howOf(await asked(connection, others))).toBe('hit')
})

// The bytes of a request are not always a request.
test.each<[string, string, (connection: RawConnection) => void]>([
  [
    'as the body of a payment',
    head('1'),
    (connection) =>
      connection.write(`POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: ${head('1').length}\r\n\r\n`),
  ],
  [
    'as a chunk of a body',
    head('1'),
    (connection) =>
      connection.write(
        `POST /checkouts HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n${head('1').length.toString(16)}\r\n`,
      ),
  ],
])('the same bytes go through %s', async (_how, bytes, begin) => {
  const { gateway, upstream } = await started()
  const connection = await knownTo(gateway.url)
  begin(connection)
  // In a piece of its own.
  await new Promise((resolve) => setTimeout(resolve, 50))
  connection.write(bytes)
  connection.write('\r\n0\r\n\r\n'.slice(_how.includes('chunk') ? 0 : 7))
  expect((await connection.answer()).body.toString()).toBe('/checkouts')
  expect(upstream.requests.at(-1)?.body.toString('latin1')).toBe(bytes)
  expect(howOf(await asked(connection, head('1')))).toBe('hit')
})

const begun = 'GET /checkouts/a HTTP/1.1\r\nX-A: '

test.each([
  ['as it begins', begun],
  ['behind a hit', head('1') + begun],
])('the same bytes inside another head belong to that head: %s', async (_when, bytes) => {
  const { gateway } = await started()
  for (const known of [2, 3, 4]) {
    const connection = new RawConnection(gateway.url)
    for (let time = 0; time < known; time += 1) await asked(connection, head('1'))
    connection.write(bytes)
    if (bytes !== begun) expect(howOf(await connection.answer())).toBe('hit')
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect((await asked(connection, head('1'))).body.toString()).toBe('/checkouts/a')
  }
})

test('a client that waits for 100 Continue gets it each time', async () => {
  const { gateway } = await started()
  const connection = new RawConnection(gateway.url)
  for (let time = 0; time < 6; time += 1) {
    const { informational } = await asked(connection, head('1', 'Expect: 100-continue\r\n'))
    expect(informational).toEqual([100])
  }
})

test('answers keep the order of their requests', async () => {
  const { gateway, upstream } = await started()
  const connection = await knownTo(gateway.url)
  let answerLate = () => {}
  const asking = new Promise<void>((resolve) => {
    upstream.answer((_request, response) => {
      answerLate = () => giveQuote(response)
      resolve()
    })
  })
  connection.write(head('3'))
  await asking
  connection.write(head('1'))
  await new Promise((resolve) => setTimeout(resolve, 50))
  answerLate()
  expect(howOf(await connection.answer())).toBe('fwd=uri-miss')
  expect(howOf(await connection.answer())).toBe('hit')
})

test('several requests in one piece are all answered', async () => {
  const { gateway } = await started()
  const connection = await knownTo(gateway.url)
  connection.write(head('1').repeat(3) + head('1').slice(0, 30))
  for (let time = 0; time < 3; time += 1) expect(howOf(await connection.answer())).toBe('hit')
  expect(howOf(await asked(connection, head('1').slice(30)))).toBe('hit')
})

test.each([1, 2, 3, 4, 5])(
  'a connection that requested a tunnel after %s requests gets no more answers',
  async (before) => {
    const { gateway } = await started()
    const tunnel = 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n'
    for (const together of [false, true]) {
      const connection = new RawConnection(gateway.url)
      for (let time = 0; time < before; time += 1) await asked(connection, head('1'))
      if (together) expect(howOf(await asked(connection, head('1') + tunnel))).toBe('hit')
      else expect((await asked(connection, tunnel)).status).toBe(405)
      connection.write(head('1'))
      await connection.closed()
      expect(connection.received.toString()).toMatch(/^$|^HTTP\/1.1 405 /)
    }
    // Nor does what it sends reach another connection.
    expect(howOf(await asked(new RawConnection(gateway.url), head('1')))).toBe('hit')
  },
)

test('a malformed request ends the connection', async () => {
  const { gateway } = await started()
  const connection = await knownTo(gateway.url)
  expect((await asked(connection, 'GET  / HTTP/1.1\r\n\r\n')).status).toBe(400)
  connection.write(head('1'))
  await connection.closed()
  expect(connection.received.toString()).toBe('')
})

test('the last answer before a shutdown says that it is the last', async () => {
  const { gateway } = await started()
  const connection = await knownTo(gateway.url)
  const closed = gateway.close({ delayMs: 60_000 })
  const answer = await asked(connection, head('1'))
  expect([howOf(answer), valuesOf(answer.rawHeaders, 'connection')]).toEqual(['hit', ['close']])
  await connection.closed()
  await gateway.close()
  await closed
})

test('the gateway stops reading from a client that does not read its answers', async () => {
  const { gateway, upstream } = await started({ quoteBytes: 100_000 })
  upstream.answer((_request, response) => giveQuote(response, quoteBody({ note: 'x'.repeat(60_000) })))
  const connection = await knownTo(gateway.url)
  connection.socket.pause()
  const asks = 1_000
  for (let time = 0; time < asks; time += 1) {
    connection.write(head('1'))
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  expect(await counted(gateway, lookups('hit'))).toBeLessThan(asks / 2)
  connection.socket.resume()
  for (let time = 0; time < asks; time += 1) expect(howOf(await connection.answer())).toBe('hit')
})
