import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { untilCounted } from '../support/clients/quotes.ts'
import { gatewayTo, until } from '../support/gateways/between.ts'
import { listening } from '../support/machine/listening.ts'

// A small upload that comes in pieces is in test/promises/short-bodies-before-connections.test.ts.

/** An upstream that keeps what it receives piece by piece, and answers each whole request. */
async function listeningUpstream(answer: (socket: Socket) => void) {
  const pieces: string[] = []
  const server = createServer((socket) => {
    let received = ''
    socket.on('error', () => {})
    socket.on('data', (piece) => {
      pieces.push(piece.toString('latin1'))
      received += piece.toString('latin1')
      if (!received.endsWith('last')) return
      received = ''
      answer(socket)
    })
  })
  return { pieces, url: (await listening(server)).url }
}

async function client(url: string) {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  await once(socket, 'connect')
  socket.setNoDelay(true)
  onTestFinished(() => void socket.destroy())
  const pieces: string[] = []
  socket.on('data', (piece) => pieces.push(piece.toString('latin1')))
  return { socket, pieces }
}

const answer =
  'HTTP/1.1 201 Created\r\nX-Kept: \xe9\r\nContent-Length: 4\r\n\r\n\x00\xff\x80!'
const head = 'POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 9\r\n\r\n'

test('a small upload that came with its head is sent in one write, and its answer is sent in one write', async () => {
  const upstream = await listeningUpstream((socket) => socket.write(answer, 'latin1'))
  const gateway = await gatewayTo(upstream.url)
  const { socket, pieces } = await client(gateway.url)
  for (let round = 1; round <= 20; round += 1) {
    socket.write(`${head}body-last`)
    await until(() => pieces.length >= round, `answer ${round}`)
  }
  expect(upstream.pieces).toHaveLength(20)
  for (const piece of upstream.pieces)
    expect(piece).toMatch(/^POST [\s\S]*\r\n\r\nbody-last$/)
  expect(pieces).toHaveLength(20)
  for (const piece of pieces)
    expect(piece).toMatch(/\r\nX-Kept: \xe9\r\n[\s\S]*\r\n\r\n\0\xff\x80!$/)
})

test('a small answer whose end is still to come streams: the client has its first half before the second is sent', async () => {
  const upstreamSockets: Socket[] = []
  const upstream = await listeningUpstream((socket) => {
    upstreamSockets.push(socket)
    socket.write(answer.slice(0, -2), 'latin1')
  })
  const gateway = await gatewayTo(upstream.url)
  const { socket, pieces } = await client(gateway.url)
  socket.write(`${head}body-last`)
  await until(() => pieces.join('').endsWith('\r\n\r\n\0\xff'), 'the first half')
  upstreamSockets[0]?.write(answer.slice(-2), 'latin1')
  await until(() => pieces.join('').endsWith('\x80!'), 'the second half')
})

test('a small answer that goes out in one write is counted by its own status', async () => {
  const upstream = await listeningUpstream((socket) =>
    socket.write(answer.replace('201 Created', '404 No'), 'latin1'),
  )
  const gateway = await gatewayTo(upstream.url)
  const { socket, pieces } = await client(gateway.url)
  socket.write(`${head}body-last`)
  await until(() => pieces.join('').startsWith('HTTP/1.1 404 No\r\n'), 'the answer')
  const series =
    'quotegate_http_requests_total{route="payments",method="POST",status_class="4xx"}'
  await untilCounted(gateway, series, 1)
})
