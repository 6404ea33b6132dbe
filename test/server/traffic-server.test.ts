import type { IncomingMessage, RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { expect, it } from 'vitest'
import { Events } from '../../src/events.ts'
import { headRefusal } from '../../src/server/head-checks.ts'
import { createTrafficServer } from '../../src/server/traffic-server.ts'
import { attack, type Step } from '../support/clients/attack.ts'
import { listening } from '../support/machine/listening.ts'

async function serve(
  listener: RequestListener,
  onSocket = (_socket: Socket) => {},
): Promise<string> {
  const server = createTrafficServer({
    listener,
    headTimeoutMs: 200,
    keepAliveMs: 200,
    events: new Events(),
  })
  return (await listening(server.on('connection', onSocket))).url
}

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const answered: Step = (socket) => new Promise((resolve) => socket.once('data', resolve))

// Node's idle timer stops at any byte, and its deadline for a head starts with the first letter of a method:
// one empty line between them, and a connection was held open forever at no cost.
it.each<[string, Step[]]>([
  ['says nothing', []],
  [
    'sends empty lines all the time',
    Array.from({ length: 1_200 }, () => ['\r\n', 50] as const).flat(),
  ],
])('closes a kept connection whose client %s', async (_name, steps) => {
  const url = await serve((_request, response) => {
    response.end('ok')
  })
  const { answers } = await attack(url, [get, answered, ...steps])
  expect(answers.map((answer) => answer.status)).toEqual([200])
})

// A client that stops reading would hold the upstream's connection behind its answer forever.
it('cuts a client that no longer takes its answer', async () => {
  const closed = new Promise<boolean>((resolve) => {
    void serve((_request, response) => {
      response.on('close', () => resolve(response.writableFinished))
      response.writeHead(200)
      response.write(Buffer.alloc(64 * 1_024 * 1_024))
    }).then((url) => attack(url, [(socket) => void socket.pause(), get]))
  })
  expect(await closed).toBe(false)
})

// The upstream has deadlines of its own, and they are longer than those for an idle client.
it('does not cut a client that is waiting for its answer', async () => {
  const url = await serve((_request, response) => {
    setTimeout(() => response.end('ok'), 1_500)
  })
  const { answers } = await attack(
    url,
    get.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'),
  )
  expect(answers.map((answer) => answer.status)).toEqual([200])
})

// Each of a thousand parsed requests costs far more memory than its bytes.
it('stops reading from a client that sends more requests than it has answers', async () => {
  let waiting: (() => void) | undefined
  let began = 0
  let readBytes = () => 0
  const listener: RequestListener = (_request, response) => {
    began += 1
    if (began <= 5) response.end('ok')
    else waiting = () => response.end('ok')
  }
  const url = await serve(listener, (socket) => {
    readBytes = () => socket.bytesRead
  })
  await attack(url, [
    Buffer.from(get.repeat(200_000)),
    1_500,
    (socket) => socket.destroy(),
  ])
  expect(waiting).toBeDefined()
  expect(began).toBe(6)
  expect(readBytes()).toBeLessThan(1_048_576)
})

// Node's parser refuses these by itself today. Which of them it does has changed between its versions, and
// changes with --insecure-http-parser.
it.each<[string, string[]]>([
  ['two lengths', ['Host', 'a', 'Content-Length', '5', 'Content-Length', '5']],
  [
    'a length and a coding',
    ['Host', 'a', 'Content-Length', '5', 'Transfer-Encoding', 'chunked'],
  ],
  ['a length that is not a number', ['Host', 'a', 'Content-Length', '+5']],
  ['a NUL in a value', ['Host', 'a', 'X-A', 'b\0c']],
])('refuses %s even if the parser let it pass', (_name, rawHeaders) => {
  const request = {
    httpVersion: '1.1',
    method: 'POST',
    url: '/',
    rawHeaders,
  } as IncomingMessage
  expect(headRefusal(request)?.slug).toBe('malformed-request')
})
