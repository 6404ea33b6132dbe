import { Worker } from 'node:worker_threads'
import { onTestFinished } from 'vitest'

export interface Flood {
  /** Of all answers so far. */
  bytes(): number
  stop(): Promise<void>
}

/** Runs by itself, so that who measures beside it does not wait for it. */
const program = `
const { connect } = require('node:net')
const { workerData: { port, connections, batch, received } } = require('node:worker_threads')
for (let count = 0; count < connections; count += 1) {
  const socket = connect(port, '127.0.0.1')
  const more = () => socket.write(batch, () => setTimeout(more, 10))
  socket.on('error', () => {})
  socket.on('data', (chunk) => Atomics.add(received, 0, BigInt(chunk.length)))
  more()
}
`

/** Connections that send a batch of requests at once, and the next as soon as that one was taken. They read all answers. */
export function floodWithPipelined(
  url: string,
  { path, connections, pipelined }: { path: string; connections: number; pipelined: number },
): Flood {
  // Of the usual size: 40 connections of 256 are 2.6 MB.
  const request = `GET ${path} HTTP/1.1\r\nHost: g\r\nUser-Agent: ${'x'.repeat(200)}\r\n\r\n`
  const received = new BigInt64Array(new SharedArrayBuffer(8))
  const workerData = {
    port: Number(new URL(url).port),
    connections,
    batch: request.repeat(pipelined),
    received,
  }
  const worker = new Worker(program, { eval: true, workerData })
  const stop = async () => {
    await worker.terminate()
  }
  onTestFinished(stop)
  return { bytes: () => Number(Atomics.load(received, 0)), stop }
}
