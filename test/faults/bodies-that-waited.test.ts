import { createServer } from 'node:http'
import express, { type RequestHandler } from 'express'
import { expect, test } from 'vitest'
import { RawConnection, valuesOf } from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  pause,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import { listening } from '../support/machine/listening.ts'

const head = (line: string, ...lines: string[]) =>
  `${[`${line} HTTP/1.1`, 'Host: g', 'App-Name: a', ...lines].join('\r\n')}\r\n\r\n`
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
const parts = ['a'.repeat(10_000), 'b'.repeat(60_000)] as const

/** The gateway behind middleware that takes its time for each request, and may pause it meanwhile. */
async function behindSlowMiddleware({ pauses } = { pauses: false }) {
  const upstream = await recordingUpstream()
  const gateway = await gatewayTo(upstream.url)
  const went: (() => void)[] = []
  const slow: RequestHandler = (request, _response, next) => {
    if (pauses) request.pause()
    went.push(next)
  }
  const server = createServer(express().use(slow, gateway.app))
  return { upstream, went, url: (await listening(server)).url }
}

const paths = ['/checkouts', '/v3/orders']

// Node reports the end of a body that lies ready as a whole before it hands its last piece over.
test.each(paths)(
  'a body of 70 KB to %s that has arrived whole is sent whole, with its framing',
  async (path) => {
    for (const isChunked of [true, false]) {
      const { upstream, went, url } = await behindSlowMiddleware()
      const piece = isChunked ? chunk : (text: string) => text
      const framing = isChunked ? 'Transfer-Encoding: chunked' : 'Content-Length: 70000'
      const client = new RawConnection(
        url,
        head(`POST ${path}`, framing) + piece(parts[0]),
      )
      await pause(100)
      client.write(piece(parts[1]) + (isChunked ? '0\r\n\r\n' : ''))
      await pause(100)
      went[0]?.()
      expect((await client.answer()).status).toBe(200)
      expect(upstream.requests[0]?.body.toString()).toBe(parts.join(''))
      const lengths = valuesOf(upstream.requests[0]?.rawHeaders ?? [], 'content-length')
      expect(lengths).toEqual(isChunked ? [] : ['70000'])
    }
  },
)

test.each([...paths, '/v3/orders/float'])(
  'a body to %s that middleware has paused is read',
  async (path) => {
    const { upstream, went, url } = await behindSlowMiddleware({ pauses: true })
    const order = JSON.stringify({
      pairId: 'A_B',
      fromAmount: 1,
      toAmount: 2,
      toAddress: 'x',
    })
    const client = new RawConnection(
      url,
      head(`POST ${path}`, `Content-Length: ${order.length}`) + order,
    )
    await until(() => went.length === 1, 'the middleware')
    went[0]?.()
    expect((await client.answer()).status).toBe(200)
    expect(upstream.requests.map(({ body }) => body.toString())).toEqual([order])
  },
)
