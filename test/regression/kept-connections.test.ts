import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { IncomingMessage } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import { RawConnection } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream, until } from '../support/gateways/between.ts'

const head = (path: string) =>
  `POST ${path} HTTP/1.1\r\nHost: g\r\nContent-Length: 20\r\n\r\n`

// A balancer keeps its connections for days: what each request leaves behind on one is never given back.
test.each([
  ['its upstream answers', '/checkouts/early'],
  ['the gateway answers', '/nothing/here'],
])(
  'a body that comes after %s leaves no bytes for the next request on its connection',
  async (_who, path) => {
    const upstream = await rawUpstream((socket) =>
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly'),
    )
    const gateway = await gatewayTo(upstream.url)
    const begun: IncomingMessage[] = []
    const note = (message: unknown) => {
      const { request } = message as { request: IncomingMessage }
      if (request.socket.localPort === Number(new URL(gateway.url).port))
        begun.push(request)
    }
    subscribe('http.server.request.start', note)
    onTestFinished(() => {
      unsubscribe('http.server.request.start', note)
    })
    const client = new RawConnection(gateway.url)
    const counts: number[] = []
    for (let time = 1; time <= 5; time += 1) {
      client.write(`${head(path)}0123456789`)
      await client.answer()
      client.write('0123456789')
      await until(
        () => begun.at(-1)?.complete === true,
        'the rest of the body to be read',
      )
      await pause(20)
      const { socket } = begun.at(-1) as IncomingMessage
      counts.push(socket.listenerCount('close'))
    }
    expect(new Set(begun.map(({ socket }) => socket)).size).toBe(1)
    expect(counts).toEqual(counts.map(() => counts[0]))
  },
)
