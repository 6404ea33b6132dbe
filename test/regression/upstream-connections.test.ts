import type { ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { lifeMs } from '../../src/upstream/connection.ts'
import { get, rawExchange } from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  rawUpstream,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'

// RFC 9112 6.1: HTTP/1.0 has no chunks, so something on the way does not know where such an answer ends. What follows it
// on the connection may be the end of that answer, and would be mistaken for the next one.
describe('after an answer in HTTP/1.0 that has chunks', () => {
  const chunked = 'Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'
  const withLength = 'Content-Length: 2\r\n\r\nok'

  test.each([
    ['1.0', chunked, 2],
    ['1.1', chunked, 1],
    ['1.0', withLength, 1],
  ])(
    'the connection is closed (HTTP/%s %j: %i connections)',
    async (version, framed, connections) => {
      let ended = 0
      const upstream = await rawUpstream((socket) => {
        socket.on('close', () => {
          ended += 1
        })
        const answer = () => {
          socket.write(`HTTP/${version}`)
          setTimeout(
            () => socket.write(` 200 OK\r\nConnection: keep-alive\r\n${framed}`),
            20,
          )
        }
        answer()
        socket.on('data', answer)
      })
      const gateway = await gatewayTo(upstream.url)
      expect(await rawExchange(gateway.url, get('/checkouts'))).toMatchObject({
        status: 200,
        whole: true,
      })
      if (connections === 2) await until(() => ended === 1, 'the connection to be closed')
      expect((await rawExchange(gateway.url, get('/checkouts'))).body.toString()).toBe(
        'ok',
      )
      expect(upstream.received).toHaveLength(connections)
    },
  )
})

// All connections of a burst were renewed in one instant: a burst of handshakes every minute, each in front of a request.
describe('the life of a connection', () => {
  test('is between three quarters of the limit and the limit', () => {
    const lives = [0, 0.25, 0.5, 0.999].map((random) => lifeMs(400_000, random))
    expect(Math.min(...lives)).toBeGreaterThanOrEqual(300_000)
    expect(Math.max(...lives)).toBeLessThanOrEqual(400_000)
    expect(new Set(lives).size).toBe(lives.length)
  })

  test('differs: those that were made together are not renewed together', async () => {
    const size = 16
    const waiting: ServerResponse[] = []
    const upstream = await recordingUpstream((_request, response) => {
      // Answered together, so that each round needs all connections.
      if (waiting.push(response) < size) return
      for (const each of waiting.splice(0)) each.end('ok')
    })
    const limits = { connections: size }
    const edge = await edgeTo(upstream.url, limits, {
      name: 'payments',
      connectionLifeMs: 4_000,
    })
    /** When a port of ours was first seen. */
    const seenAtMs = new Map<number | undefined, number>()
    const startedAtMs = performance.now()
    while (seenAtMs.size < 2 * size) {
      await Promise.all(
        Array.from({ length: size }, () => rawExchange(edge.url, get('/'))),
      )
      for (const { remotePort } of upstream.connections)
        if (!seenAtMs.has(remotePort))
          seenAtMs.set(remotePort, performance.now() - startedAtMs)
    }
    const renewedAtMs = [...seenAtMs.values()].slice(size)
    expect((renewedAtMs[size - 1] ?? 0) - (renewedAtMs[0] ?? 0)).toBeGreaterThan(300)
  })
})
