import { createServer, METHODS, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Events } from '../../src/events.ts'
import { createGateway } from '../../src/gateway/gateway.ts'
import type { Gateway } from '../../src/gateway/types.ts'
import { createTrafficServer } from '../../src/server/traffic-server.ts'
import { attack, readAnswers } from '../support/clients/attack.ts'
import { type HostileStream, hostileStream } from '../support/clients/hostile-streams.ts'
import { pause } from '../support/gateways/between.ts'
import { environment } from '../support/machine/environment.ts'

/** FUZZ_SEED is how a failure is run again, or another seed is tried. */
const seed = Number(environment().FUZZ_SEED ?? 20_250_711)
const streamsCount = 14_000
const atOnce = 200
const quietMs = 25

const allowedTarget = /^\/(?:v3|checkouts|subscriptions|refunds)(?:[/?]|$)/

/** What the upstream got and should not have. */
const misfits: string[] = []
const uncaught: unknown[] = []
let upstreamOpen = 0
let upstreamSeen = 0

let upstream: Server
let gateway: Gateway
let server: Server

const portOf = (listening: Server) => (listening.address() as AddressInfo).port
const listen = (next: Server) =>
  new Promise<void>((resolve) => next.listen(0, '127.0.0.1', resolve))
const onUncaught = (error: unknown) => uncaught.push(error)

beforeAll(async () => {
  process.on('uncaughtException', onUncaught)
  process.on('unhandledRejection', onUncaught)
  upstream = createServer((request, response) => {
    upstreamSeen += 1
    upstreamOpen += 1
    response.once('close', () => {
      upstreamOpen -= 1
    })
    const { method = '', url = '', rawHeaders, headers } = request
    const names = rawHeaders
      .filter((_part, index) => index % 2 === 0)
      .map((name) => name.toLowerCase())
    const framings = names.filter(
      (name) => name === 'content-length' || name === 'transfer-encoding',
    )
    const wrong =
      !METHODS.includes(method) ||
      method === 'CONNECT' ||
      method === 'TRACE' ||
      !allowedTarget.test(url) ||
      framings.length > 1 ||
      names.filter((name) => name === 'host').length !== 1 ||
      headers.host !== `127.0.0.1:${portOf(upstream)}` ||
      headers.upgrade !== undefined
    if (wrong) misfits.push(`${method} ${url} ${rawHeaders.join('|')}`)
    request.on('error', () => {})
    const answer = () => response.end(`${method} ${url}`)
    request
      .resume()
      .on('end', () => (url.endsWith('/leader') ? setTimeout(answer, 4) : answer()))
  })
  upstream.maxHeadersCount = 0
  upstream.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // A request that its client broke off breaks off here too; everything else would be bytes of ours.
    if (error.code !== 'ECONNRESET' && error.code !== 'HPE_INVALID_EOF_STATE')
      misfits.push(String(error))
    socket.destroy()
  })
  await listen(upstream)
  const url = `http://127.0.0.1:${portOf(upstream)}`
  gateway = await createGateway(
    { SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url },
    // Short, so that what is left behind by a broken body comes to light within the test.
    { limits: { bodyIdleTimeoutMs: 700 } },
  )
  server = createTrafficServer({
    listener: gateway.listener,
    headTimeoutMs: 500,
    keepAliveMs: 500,
    events: new Events(),
  })
  await listen(server)
})

afterAll(async () => {
  process.off('uncaughtException', onUncaught)
  process.off('unhandledRejection', onUncaught)
  server.close()
  server.closeAllConnections()
  await gateway.close()
  upstream.close()
  upstream.closeAllConnections()
})

/** Plays one stream and gives back all that came, and whether the gateway ended the connection by itself. */
async function play(stream: HostileStream): Promise<{ text: string; ended: boolean }> {
  const socket = connect({ port: portOf(server), host: '127.0.0.1', allowHalfOpen: true })
  const chunks: Buffer[] = []
  let ended = false
  let lastAtMs = performance.now()
  socket.on('data', (chunk) => {
    chunks.push(chunk)
    lastAtMs = performance.now()
  })
  socket.on('error', () => {})
  const over = new Promise<void>((resolve) => {
    socket.once('end', () => {
      ended = true
      resolve()
    })
    socket.once('close', resolve)
  })
  for (const [index, piece] of stream.pieces.entries()) {
    if (index > 0) await pause(1)
    if (!socket.writable) break
    socket.write(piece)
  }
  if (stream.ending === 'wait') await over
  else {
    lastAtMs = performance.now()
    while (!ended && !socket.destroyed && performance.now() - lastAtMs < quietMs)
      await pause(5)
    if (stream.ending === 'reset') socket.resetAndDestroy()
    else socket.end()
    await over
  }
  socket.destroy()
  return {
    text: Buffer.concat(chunks).toString('latin1'),
    ended: ended && stream.ending === 'wait',
  }
}

function check(
  stream: HostileStream,
  { text, ended }: { text: string; ended: boolean },
): void {
  const sent = Buffer.concat(stream.pieces).toString('latin1')
  const { answers, rest } = readAnswers(text, sent.includes('HEAD') ? 'unknown' : [])
  if (ended) expect(rest).toBe('')
  // No request ends without an empty line, and whatever is malformed is answered once, at the end.
  expect(answers.length).toBeLessThanOrEqual(
    [...sent.matchAll(/\n\r?(?=\n)/g)].length + 1,
  )
  for (const [index, answer] of answers.entries()) {
    expect(answer.body).not.toContain('internal-error')
    expect(answer.status).not.toBe(500)
    const closes = answer.headers.get('connection')?.includes('close') ?? false
    if (closes) expect(index).toBe(answers.length - 1)
  }
  // A refusal that overtakes the answer in front of it would be mistaken for that answer.
  if (stream.led && answers[0]) expect(answers[0].body).toBe('GET /checkouts/leader')
  // What was answered by the upstream was asked for, in this order.
  let from = 0
  for (const answer of answers) {
    const echoed = answer.status === 200 ? answer.body.split(' ')[1] : undefined
    if (echoed === undefined) continue
    const at = sent.indexOf(echoed, from)
    expect(at, `an answer for ${echoed} out of order`).toBeGreaterThanOrEqual(from)
    from = at + 1
  }
}

it('withstands twenty thousand hostile requests', async () => {
  const streams = fc.sample(hostileStream, { seed, numRuns: streamsCount })
  const requests = streams.reduce((sum, stream) => sum + stream.requests, 0)
  let next = 0
  async function worker(): Promise<void> {
    for (let index = next++; index < streams.length; index = next++) {
      const stream = streams[index] as HostileStream
      const outcome = await play(stream)
      try {
        check(stream, outcome)
      } catch (error) {
        const sent = stream.pieces.map((piece) =>
          piece.toString('latin1').slice(0, 2_000),
        )
        throw new Error(
          `FUZZ_SEED=${seed}, stream ${index}: ${JSON.stringify(sent)}\n${outcome.text}`,
          {
            cause: error,
          },
        )
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))

  process.stdout.write(
    `fuzz: ${requests} hostile requests, ${upstreamSeen} went upstream, seed ${seed}\n`,
  )
  expect(requests).toBeGreaterThanOrEqual(20_000)
  expect(upstreamSeen, 'too few of them are good enough to go on').toBeGreaterThan(
    requests / 20,
  )
  expect(misfits, `FUZZ_SEED=${seed}`).toEqual([])
  expect(uncaught, `FUZZ_SEED=${seed}`).toEqual([])

  const plain = 'GET /checkouts/after HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
  const { answers } = await attack(`http://127.0.0.1:${portOf(server)}`, plain)
  expect(answers.map((answer) => answer.body)).toEqual(['GET /checkouts/after'])

  const connections = () =>
    new Promise<number>((resolve) =>
      server.getConnections((_error, count) => resolve(count)),
    )
  await expect.poll(connections, { timeout: 60_000 }).toBe(0)
  await expect.poll(() => upstreamOpen, { timeout: 60_000 }).toBe(0)
})
