import { createServer } from 'node:net'
import { describe, expect, test } from 'vitest'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream } from '../support/gateways/between.ts'

/** The address of a port on which no server listens. */
async function nobodyThere(): Promise<string> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return `http://127.0.0.1:${port}`
}

const requests: [string, string][] = [
  ['GET', 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n'],
  ['POST', 'POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}'],
]

describe('an upstream that refuses connections', () => {
  test.each(requests)(
    'is a 502 for a %s, which can be sent again because no server has seen it',
    async (_method, bytes) => {
      const gateway = await gatewayTo(await nobodyThere())
      const answer = await rawExchange(gateway.url, bytes)
      expect(expectProblem(answer, 502, 'upstream-unreachable')).toMatchObject({ retryable: true })
      expect(proxyStatus(answer)).toBe('quotegate; error=connection_refused')
    },
  )

  test('is a 502 that reaches the sender of a large body whole', async () => {
    const gateway = await gatewayTo(await nobodyThere())
    const client = new RawConnection(gateway.url)
    const size = 5 * 1024 * 1024
    client.write(`POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: ${size}\r\n\r\n`)
    client.socket.write(Buffer.alloc(size))
    // As many clients do: nothing is read before all is sent.
    client.socket.pause()
    await new Promise<void>((resolve, reject) => {
      client.socket.once('drain', resolve)
      client.socket.once('error', reject)
    })
    client.socket.resume()
    expectProblem(await client.answer(), 502, 'upstream-unreachable')
    expect(client.error).toBeUndefined()
  })

  test('leaves the connection of a client with a small body open for its next request', async () => {
    const gateway = await gatewayTo(await nobodyThere())
    const client = new RawConnection(gateway.url)
    for (const _ of [1, 2]) {
      client.write('POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}')
      expectProblem(await client.answer(), 502, 'upstream-unreachable')
    }
  })
})

test('an upstream that speaks no TLS where https is set is a 502 and no crash', async () => {
  const upstream = await rawUpstream((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\n'))
  const gateway = await gatewayTo(`https://127.0.0.1:${upstream.port}`, { connectTimeoutMs: 500 })
  const answer = await rawExchange(gateway.url, 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n')
  expect([502, 504]).toContain(answer.status)
  expect(JSON.parse(answer.body.toString())).toMatchObject({ retryable: true })
})
