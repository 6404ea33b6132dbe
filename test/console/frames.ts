import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished } from 'vitest'
import { ask, gatewayWith, look } from '../operations/support.ts'

// biome-ignore lint/suspicious/noExplicitAny: a test changes a frame as it likes.
export type Frame = Record<string, any>

export interface Staged {
  url: string
  /** What a gateway without any traffic says. */
  hello: Frame
  tick: Frame
  send(event: string, frame: Frame): void
  /** Ends the stream: the page connects again, and this is what it is greeted with. */
  restart(hello: Frame): void
}

/** Serves the page of a gateway, with frames that a test makes up. */
export async function stageFrames(): Promise<Staged> {
  const gateway = await gatewayWith()
  const viewer = await look(gateway.operationsUrl)
  await expect.poll(() => viewer.frames.length, { timeout: 10_000 }).toBeGreaterThan(1)
  await viewer.leave()
  const [hello, tick] = viewer.frames.map(({ data }) => data) as [Frame, Frame]
  let greeting = hello
  const viewers = new Set<ServerResponse>()
  const server = createServer(async (request, response) => {
    if (request.url === '/stream') {
      viewers.add(response.writeHead(200, { 'Content-Type': 'text/event-stream' }))
      response.write(textOf('hello', greeting))
      return
    }
    const { status, headers, body } = await ask(gateway.operationsUrl + request.url)
    response.writeHead(status, { 'Content-Type': headers['content-type'] }).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hello,
    tick,
    send(event, frame) {
      for (const response of viewers) response.write(textOf(event, frame))
    },
    restart(next) {
      greeting = next
      for (const response of viewers) response.end()
      viewers.clear()
    },
  }
}

function textOf(event: string, frame: Frame): string {
  return `event: ${event}\ndata: ${JSON.stringify(frame)}\n\n`
}
