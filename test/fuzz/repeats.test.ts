import { connect } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { after, readAnswers } from '../support/attack.ts'
import { environment } from '../support/environment.ts'
import { type RunningGateway, startGateway } from '../support/gateway.ts'
import { giveQuote, quoteBody, quotePath } from '../support/quotes.ts'
import { type RecordingUpstream, startRecordingUpstream } from '../support/recording-upstream.ts'

/** FUZZ_SEED is how a failure is run again, or another seed is tried. */
const seed = Number(environment().FUZZ_SEED ?? 20_261_123)
const streamsCount = 1_500
const atOnce = 30
const expiry = Date.now() + 3_600_000

interface Lane {
  gateway: RunningGateway
  upstream: RecordingUpstream
}

async function startLane(fastLane: 'on' | 'off'): Promise<Lane> {
  const upstream = await startRecordingUpstream(({ method, target, body }, response) => {
    const echo = `${method} ${target} ${body.toString('latin1')}`
    if (!target.startsWith(quotePath)) setTimeout(() => response.end(echo), target.endsWith('/slow') ? 10 : 0)
    else giveQuote(response, quoteBody({ id: target, expiry }))
  })
  const gateway = await startGateway({
    FAST_LANE: fastLane,
    SWAP_BASE_URL: upstream.url,
    PAYMENTS_BASE_URL: upstream.url,
    REQUEST_BODY_IDLE_TIMEOUT_MS: 700,
    REQUEST_HEAD_TIMEOUT_MS: 700,
  })
  return { gateway, upstream }
}

let lanes: readonly [on: Lane, off: Lane]
beforeAll(async () => {
  lanes = [await startLane('on'), await startLane('off')]
})
afterAll(async () => {
  for (const { gateway, upstream } of lanes) {
    await gateway.close()
    await upstream.close()
  }
})

const quote = (amount: string, { more = '', method = 'GET', version = '1.1' } = {}) =>
  `${method} ${quotePath}?amount=${amount} HTTP/${version}\r\nHost: g\r\nApp-Name: fuzz\r\n${more}\r\n`
const within = (framing: string, body: string) =>
  `POST /checkouts HTTP/1.1\r\nHost: g\r\n${framing}\r\n\r\n${body}`

const last = 'GET /checkouts/last HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n'

/** What a client sends behind requests that are known by now; `own` tells the amounts of one stream from all others'. */
const step = (own: string): fc.Arbitrary<readonly string[]> => {
  const known = quote(own)
  const half = known.length >> 1
  const chunk = `${known.length.toString(16)}\r\n`
  return fc.oneof(
    { weight: 6, arbitrary: fc.constant([known]) },
    { weight: 2, arbitrary: fc.constant([quote(`${own}.5`)]) },
    fc.constantFrom(
      [known + known],
      [known.slice(0, half), known.slice(half)],
      [known + known.slice(0, half), known.slice(half) + known],
      [`\r\n${known}`],
      [quote(own, { more: 'X-Request-Id: a\r\n' })],
      [quote(own, { more: 'Connection: close\r\n' })],
      [quote(own, { more: 'Connection: keep-alive\r\n' })],
      [quote(own, { more: 'Content-Length: 0\r\n' })],
      [quote(own, { more: `Content-Length: ${known.length}\r\n` }), known],
      Array(4).fill(quote(own, { more: 'Expect: 100-continue\r\n' })),
      Array(4).fill(quote(own, { more: 'Content-Length: 0\r\n' })),
      Array(4).fill(quote(own, { more: 'X-B: c\r\n' })),
      [quote(own, { more: 'Upgrade: h2c\r\n' })],
      [quote(own, { method: 'HEAD' })],
      [quote(own, { method: 'POST' })],
      [quote(own, { method: 'get' })],
      [quote(own, { version: '1.0' })],
      [quote(`${own} `)],
      [quote(`${own}#`)],
      [quote(`${own}"`)],
      [quote(`${own}\xe9`)],
      [quote('-1')],
      [known.replace('/v3/', '/v3/../v3/')],
      [known.replace('/v3/', 'http://a/v3/')],
      [known.replace(quotePath, '/checkouts')],
      [known.replace(quotePath, '/checkouts/slow')],
      [known.replace('App-Name: ', 'App-Name:')],
      [known.replaceAll('\r\n', '\n')],
      [within(`Content-Length: ${known.length}`, known)],
      [within(`Content-Length: ${known.length}`, ''), known],
      [within(`Content-Length: ${known.length * 2}`, known), known],
      [within('Transfer-Encoding: chunked', chunk), known, '\r\n0\r\n\r\n'],
      [within('Transfer-Encoding: chunked', `${chunk}${known}\r\n0\r\n\r\n`)],
      ['GET /checkouts/a HTTP/1.1\r\nX-A: ', known],
      [`${known}GET /checkouts/a HTTP/1.1\r\nX-A: `, known],
      ['GET /checkouts/a HTTP/1.1\r\nHost: g\r\nX-A: b\r\n', '\r\n'],
      ['CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', known],
      ['nonsense\r\n\r\n', known],
    ),
  )
}

interface Stream {
  own: string
  pieces: readonly string[]
}

let streams = 0
const stream: fc.Arbitrary<Stream> = fc.constant(undefined).chain(() => {
  streams += 1
  const own = String(1_000 + streams)
  return fc.array(step(own), { minLength: 1, maxLength: 6 }).map((steps) => ({ own, pieces: steps.flat() }))
})

async function play({ gateway }: Lane, { own, pieces }: Stream, gapMs: number): Promise<string> {
  const socket = connect({ port: Number(new URL(gateway.url).port), host: '127.0.0.1', allowHalfOpen: true })
  let text = ''
  let wake = () => {}
  socket.setEncoding('latin1')
  socket.on('data', (piece) => {
    text += piece
    wake()
  })
  socket.on('error', () => {})
  const over = new Promise<void>((resolve) => {
    socket.once('end', resolve)
    socket.once('close', () => resolve())
  })
  for (let known = 1; known <= 5; known += 1) {
    socket.write(quote(own))
    while (readAnswers(text).answers.length < known) await new Promise<void>((resolve) => (wake = resolve))
  }
  for (const piece of pieces) {
    if (!socket.writable) break
    socket.write(Buffer.from(piece, 'latin1'))
    await after(gapMs)
  }
  // Where that is taken for a part of what came before it, a deadline ends the connection.
  await after(5 * gapMs)
  if (socket.writable) socket.write(last)
  await over
  socket.destroy()
  return text
}

/** What must not depend on the lane. */
function meaning(text: string): unknown[] {
  const { answers, informational, rest } = readAnswers(text, 'unknown')
  return [
    informational,
    rest === '',
    ...answers.map(({ status, headers, body }) => [
      status,
      headers.get('cache-status')?.map((value) => value.split('; ').slice(0, 2).join(';')),
      headers.get('content-length'),
      headers.get('connection'),
      status === 200 ? body : JSON.parse(body || '{}').type,
    ]),
  ]
}

it('what is answered without Node reading it is what is answered otherwise', async () => {
  const all = fc.sample(stream, { numRuns: streamsCount, seed })
  for (let from = 0; from < all.length; from += atOnce) {
    await Promise.all(
      all.slice(from, from + atOnce).map(async (one) => {
        // Whether an answer was still under way when a connection ended is a matter of moments.
        for (const gapMs of [4, 40, 400]) {
          const [on, off] = await Promise.all(lanes.map((lane) => play(lane, one, gapMs)))
          const found = { pieces: one.pieces, answers: meaning(on ?? '') }
          const wanted = { pieces: one.pieces, answers: meaning(off ?? '') }
          if (gapMs < 400 && !isDeepStrictEqual(found, wanted)) continue
          expect(found).toEqual(wanted)
          break
        }
      }),
    )
  }
  const received = lanes.map(
    ({ upstream }) =>
      new Set(
        upstream.requests.map(({ method, target, body }) => `${method} ${target} ${body.toString('latin1')}`),
      ),
  )
  expect(received[0]).toEqual(received[1])
  expect(received[0]?.size).toBeGreaterThan(streamsCount)
})
