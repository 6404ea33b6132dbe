import type { ServerResponse } from 'node:http'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { lifeMs } from '../../src/upstream/connections.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream, recordingUpstream, until } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`

// RFC 9112 6.1: HTTP/1.0 has no chunks, so something on the way does not know where such an answer ends. What follows it on
// the connection may be the end of that answer, and would be mistaken for the next one.
describe('after an answer in HTTP/1.0 that has chunks', () => {
  const chunked = (version: string, piece: (bytes: string) => void) => {
    const answer = `HTTP/${version} 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`
    piece(answer.slice(0, 5))
    setTimeout(() => piece(answer.slice(5)), 20)
  }

  test.each([
    ['1.0', 2],
    ['1.1', 1],
  ])('the connection is closed (HTTP/%s: 2 requests on %i connections)', async (version, connections) => {
    let ended = 0
    const upstream = await rawUpstream((socket) => {
      socket.on('close', () => {
        ended += 1
      })
      const answer = () => chunked(version, (bytes) => socket.write(bytes))
      answer()
      socket.on('data', answer)
    })
    const gateway = await gatewayTo(upstream.url)
    expect(await rawExchange(gateway.url, get('/checkouts'))).toMatchObject({ status: 200, whole: true })
    if (connections === 2) await until(() => ended === 1, 'the connection to be closed')
    expect((await rawExchange(gateway.url, get('/checkouts'))).body.toString()).toBe('ok')
    expect(upstream.received).toHaveLength(connections)
  })

  test('with a length it is kept', async () => {
    const upstream = await rawUpstream((socket) => {
      const answer = 'HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok'
      socket.write(answer)
      socket.on('data', () => socket.write(answer))
    })
    const gateway = await gatewayTo(upstream.url)
    for (let count = 0; count < 2; count += 1)
      expect((await rawExchange(gateway.url, get('/checkouts'))).body.toString()).toBe('ok')
    expect(upstream.received).toHaveLength(1)
  })
})

// All connections of a burst were renewed in one instant: a burst of handshakes every minute, each in front of a request.
describe('the life of a connection', () => {
  test('is between three quarters of the limit and the limit', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 600_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (maxAgeMs, random) => {
          expect(lifeMs(maxAgeMs, random)).toBeGreaterThanOrEqual(maxAgeMs * 0.75)
          expect(lifeMs(maxAgeMs, random)).toBeLessThanOrEqual(maxAgeMs)
        },
      ),
    )
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
    const edge = await edgeTo(upstream.url, limits, { name: 'payments', connectionLifeMs: 4_000 })
    /** When a port of ours was first seen. */
    const seenAtMs = new Map<number | undefined, number>()
    const startedAtMs = performance.now()
    while (seenAtMs.size < 2 * size) {
      await Promise.all(Array.from({ length: size }, () => rawExchange(edge.url, get('/'))))
      for (const { remotePort } of upstream.connections)
        if (!seenAtMs.has(remotePort)) seenAtMs.set(remotePort, performance.now() - startedAtMs)
    }
    const renewedAtMs = [...seenAtMs.values()].slice(size)
    expect((renewedAtMs[size - 1] ?? 0) - (renewedAtMs[0] ?? 0)).toBeGreaterThan(300)
  })
})
