import { connect, createServer } from 'node:net'
import { onTestFinished } from 'vitest'
import { listening } from '../machine/listening.ts'
import { pause } from './between.ts'

interface Backend {
  url: string
  operationsUrl: string
}

const healthCheckEveryMs = 100

/**
 * A TCP load balancer like those in front of a deployment: it knows connections and health checks, nothing else. New
 * connections go to those of `backends` that say that they are ready, and `given` is how many each was given.
 */
export async function startBalancer(backends: Set<Backend>) {
  const given = new Map<Backend, number>()
  let ready: Backend[] = []
  let turn = 0
  let closed = false

  async function check(): Promise<void> {
    const asked = [...backends].map(async (backend) => {
      const answer = await fetch(`${backend.operationsUrl}/readyz`).catch(() => undefined)
      await answer?.arrayBuffer()
      return answer?.status === 200 ? backend : undefined
    })
    ready = (await Promise.all(asked)).filter((backend) => backend !== undefined)
  }

  const server = createServer({ allowHalfOpen: true }, (client) => {
    turn += 1
    const backend = ready[turn % ready.length]
    if (backend === undefined) {
      client.destroy()
      return
    }
    given.set(backend, (given.get(backend) ?? 0) + 1)
    const { hostname, port } = new URL(backend.url)
    const upstream = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      from.pipe(to)
      from.on('error', () => to.destroy())
    }
    client.on('close', () => upstream.destroy())
  })
  await check()
  void (async () => {
    while (!closed) {
      await pause(healthCheckEveryMs)
      await check()
    }
  })()
  onTestFinished(() => {
    closed = true
  })
  return { url: (await listening(server)).url, backends, given }
}
