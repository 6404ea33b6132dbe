import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import type { Listener } from '../src/fast-lane.ts'
import { silentLogger } from '../src/logger.ts'
import { createMetrics } from '../src/metrics.ts'
import { createTrafficServer } from '../src/server.ts'
import { attack, type Step } from './support/attack.ts'

let server: Server | undefined
afterEach(
  () =>
    new Promise<void>((resolve) => {
      if (!server) return resolve()
      server.close(() => resolve())
      server.closeAllConnections()
    }),
)

async function serve(listener: Listener): Promise<string> {
  const started = createTrafficServer({
    listener,
    headTimeoutMs: 200,
    keepAliveMs: 200,
    log: silentLogger(),
    metrics: createMetrics({ version: 'test', notKeptReasons: [] }),
  })
  server = started
  await new Promise<void>((resolve) => started.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(started.address() as AddressInfo).port}`
}

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const answered: Step = (socket) => new Promise((resolve) => socket.once('data', resolve))

// Node's idle timer stops at any byte, and its deadline for a head starts with the first letter of a method:
// one empty line between them, and a connection was held open for ever at no cost.
it.each<[string, Step[]]>([
  ['says nothing', []],
  ['sends one empty line', ['\r\n']],
  ['sends empty lines all the time', Array.from({ length: 400 }, () => ['\r\n', 50] as const).flat()],
])('closes a kept connection whose client %s', async (_name, steps) => {
  const url = await serve((_request, response) => {
    response.end('ok')
  })
  const { answers } = await attack(url, [get, answered, ...steps])
  expect(answers.map((answer) => answer.status)).toEqual([200])
})

// A client that stops reading would hold the upstream's connection behind its answer for ever.
it('cuts a client that no longer takes its answer', async () => {
  const closed = new Promise<boolean>((resolve) => {
    void serve((_request, response) => {
      response.on('close', () => resolve(response.writableFinished))
      response.writeHead(200)
      response.write(Buffer.alloc(64 * 1_024 * 1_024))
    }).then((url) =>
      attack(url, [
        (socket) => {
          socket.pause()
        },
        get,
      ]),
    )
  })
  expect(await closed).toBe(false)
})

// The upstream has deadlines of its own, and they are longer than those for an idle client.
it('leaves a client that is waiting for its answer alone', async () => {
  const url = await serve((_request, response) => {
    setTimeout(() => response.end('ok'), 1_500)
  })
  const { answers } = await attack(url, get.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))
  expect(answers.map((answer) => answer.status)).toEqual([200])
})

// Each of a thousand parsed requests costs far more memory than its bytes.
it('stops reading from a client that sends more requests than it has answers', async () => {
  let began = 0
  const url = await serve((_request, response) => {
    began += 1
    setTimeout(() => response.end('ok'), began === 1 ? 1_000 : 0)
  })
  let unreadBytes = 0
  const many = Buffer.from(get.repeat(400_000))
  await attack(url, [
    many,
    500,
    (socket) => {
      unreadBytes = socket.writableLength
      socket.destroy()
    },
  ])
  expect(began).toBe(1)
  expect(unreadBytes).toBeGreaterThan(0)
})
