import { expect, test } from 'vitest'
import type { SettingValue } from '../../src/config/problems.ts'
import {
  counted,
  giveQuote,
  lookups,
  quoteBody,
  quotePath,
} from '../support/clients/quotes.ts'
import {
  type ParsedAnswer,
  RawConnection,
  valuesOf,
} from '../support/clients/raw-connection.ts'
import { pause, recordedGateway } from '../support/gateways/between.ts'

// A hit is answered within the call that brought its request. Whatever comes on the same connection before or after it,
// cut anywhere, is one request after another.

const lines = 'Host: gateway\r\nApp-Name: wallet\r\n'
const head = (amount: string, more = '') =>
  `GET ${quotePath}?amount=${amount} HTTP/1.1\r\n${lines}${more}\r\n`

const started = (settings: Record<string, SettingValue> = {}) =>
  recordedGateway(settings, ({ method, target }, response) => {
    if (method !== 'GET' || !target.startsWith('/v3/pairs')) response.end(target)
    else giveQuote(response)
  })

async function asked(connection: RawConnection, bytes: string): Promise<ParsedAnswer> {
  connection.write(bytes)
  return connection.answer()
}

/** A connection that has had hits. */
async function knownTo(url: string): Promise<RawConnection> {
  const connection = new RawConnection(url)
  for (let time = 0; time < 4; time += 1) await asked(connection, head('1'))
  return connection
}

const howOf = ({ rawHeaders }: ParsedAnswer) =>
  valuesOf(rawHeaders, 'cache-status')[0]?.split('; ')[1]
/** All of an answer that is the same for the same quote within a second or two. */
const lasting = ({ status, rawHeaders, body }: ParsedAnswer) => ({
  status,
  body: body.toString(),
  headers: rawHeaders.map((text) =>
    text
      .replace(/(?<=max-age=|ttl=)\d+|[\da-f-]{36}/g, 'n')
      .replace(/^\w{3}, .* GMT$/, 'now'),
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
  const answers =
    'quotegate_http_requests_total{route="quote",method="GET",status_class="2xx"}'
  expect(await counted(gateway, answers)).toBe(7)
  expect(await counted(gateway, 'quotegate_http_requests_in_flight')).toBe(0)
})

// The bytes of a request are not always a request.
test('the same bytes go through as a chunk of a body', async () => {
  const { gateway, upstream } = await started()
  const connection = await knownTo(gateway.url)
  const bytes = head('1')
  const size = bytes.length.toString(16)
  connection.write(
    `POST /checkouts HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n${size}\r\n`,
  )
  // In a piece of its own.
  await pause(50)
  connection.write(`${bytes}\r\n0\r\n\r\n`)
  expect((await connection.answer()).body.toString()).toBe('/checkouts')
  expect(upstream.requests.at(-1)?.body.toString('latin1')).toBe(bytes)
  expect(howOf(await asked(connection, head('1')))).toBe('hit')
})

test('a client that waits for 100 Continue gets it each time', async () => {
  const { gateway } = await started()
  const connection = new RawConnection(gateway.url)
  for (let time = 0; time < 6; time += 1) {
    const { informational } = await asked(
      connection,
      head('1', 'Expect: 100-continue\r\n'),
    )
    expect(informational).toEqual([100])
  }
})

test('answers keep the order of their requests, also of several in one piece', async () => {
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
  connection.write(head('1').repeat(3) + head('1').slice(0, 30))
  await pause(50)
  answerLate()
  expect(howOf(await connection.answer())).toBe('fwd=uri-miss')
  for (let time = 0; time < 3; time += 1)
    expect(howOf(await connection.answer())).toBe('hit')
  expect(howOf(await asked(connection, head('1').slice(30)))).toBe('hit')
})

test('a connection that requested a tunnel gets no more answers', async () => {
  const { gateway } = await started()
  const tunnel = 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n'
  for (const together of [false, true]) {
    const connection = await knownTo(gateway.url)
    if (together) expect(howOf(await asked(connection, head('1') + tunnel))).toBe('hit')
    else expect((await asked(connection, tunnel)).status).toBe(405)
    connection.write(head('1'))
    await connection.closed()
    expect(connection.received.toString()).toMatch(/^$|^HTTP\/1.1 405 /)
  }
  // Nor does what it sends reach another connection.
  expect(howOf(await asked(new RawConnection(gateway.url), head('1')))).toBe('hit')
})

test('the last answer before a shutdown says that it is the last', async () => {
  const { gateway } = await started()
  const connection = await knownTo(gateway.url)
  const closed = gateway.close({ delayMs: 60_000 })
  const answer = await asked(connection, head('1'))
  expect([howOf(answer), valuesOf(answer.rawHeaders, 'connection')]).toEqual([
    'hit',
    ['close'],
  ])
  await connection.closed()
  await gateway.close()
  await closed
})

test('the gateway stops reading from a client that does not read its answers', async () => {
  const { gateway, upstream } = await started({ quoteBytes: 100_000 })
  const body = quoteBody({ note: 'x'.repeat(60_000), expiry: Date.now() + 3_600_000 })
  upstream.answer((_request, response) => giveQuote(response, body))
  const connection = await knownTo(gateway.url)
  connection.socket.pause()
  const asks = 500
  for (let time = 0; time < asks; time += 1) {
    connection.write(head('1'))
    await pause(1)
  }
  expect(await counted(gateway, lookups('hit'))).toBeLessThan(asks / 2)
  connection.socket.resume()
  for (let time = 0; time < asks; time += 1)
    expect(howOf(await connection.answer())).toBe('hit')
})
