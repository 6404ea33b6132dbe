import { type AddressInfo, createServer, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { expectProblem } from '../support/clients/problems.ts'
import { RawConnection } from '../support/clients/raw-connection.ts'
import { gatewayTo } from '../support/gateways/between.ts'

const stages = ['connection', 'first byte', 'end of the head', 'middle of the body', 'last byte'] as const
type Stage = (typeof stages)[number]

/** Ends the connection of every POST at one stage of its arrival; counts those of which it saw as much as a byte. */
async function endingUpstream(stage: Stage, end: (socket: Socket) => void) {
  const posts: string[] = []
  const open = new Set<Socket>()
  const server = createServer((socket) => {
    open.add(socket)
    socket.on('error', () => {})
    if (stage === 'connection') return end(socket)
    const index = posts.push('') - 1
    socket.on('data', (chunk) => {
      const post = (posts[index] ?? '') + chunk.toString('latin1')
      posts[index] = post
      const headEnd = post.indexOf('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(post)?.[1])
      const arrived = headEnd === -1 ? -1 : post.length - headEnd - 4
      const due = {
        'first byte': -1,
        'end of the head': 0,
        'middle of the body': length / 2,
        'last byte': length,
      }
      if (arrived >= due[stage]) end(socket)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of open) socket.destroy()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, posts }
}

describe.each([
  ['/checkouts', 100],
  ['/checkouts', 1_000_000],
])('a POST to %s with a body of %i bytes', (path, size) => {
  const request =
    `POST ${path} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${size}\r\n\r\n${JSON.stringify('x'.repeat(size - 2))}`

  describe.each([
    ['reset', (socket: Socket) => socket.resetAndDestroy()],
    ['closed', (socket: Socket) => socket.destroy()],
    ['half-closed', (socket: Socket) => socket.end()],
  ])('whose connection is %s', (_how, end) => {
    test.each(stages)(
      'at its %s is sent once, and called retryable only if no byte of it was',
      async (stage) => {
        const upstream = await endingUpstream(stage, end)
        const gateway = await gatewayTo(upstream.url, { retries: 1 })
        const client = new RawConnection(gateway.url)
        client.write(request)
        const problem = expectProblem(await client.answer(), 502, 'upstream-reset')
        expect(upstream.posts).toHaveLength(stage === 'connection' ? 0 : 1)
        if (stage !== 'connection') expect(problem.retryable).toBe(false)
      },
    )
  })
})
