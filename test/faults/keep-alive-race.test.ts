import { monitorEventLoopDelay } from 'node:perf_hooks'
import { describe, expect, onTestFinished, test } from 'vitest'
import { RawConnection } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream } from '../support/gateways/between.ts'
import { racingUpstream } from '../support/upstreams/racing-upstream.ts'

/** POSTs, so many at a time with a pause between; how many of them came back with which status. */
async function postInBursts(
  gatewayUrl: string,
  options: { bursts: number; atOnce: number; pauseMs: () => number },
): Promise<Record<number, number>> {
  const statuses: Record<number, number> = {}
  const clients = Array.from({ length: options.atOnce }, () => new RawConnection(gatewayUrl))
  for (let burst = 0; burst < options.bursts; burst += 1) {
    await Promise.all(
      clients.map(async (client, index) => {
        client.write(`POST /checkouts/${burst}-${index} HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}`)
        const { status } = await client.answer()
        statuses[status] = (statuses[status] ?? 0) + 1
      }),
    )
    await pause(options.pauseMs())
  }
  return statuses
}

const between = (least: number, most: number) => () => least + Math.random() * (most - least)
const sum = (counts: number[]) => counts.reduce((total, count) => total + count, 0)

describe('an upstream that closes idle connections just as the next POST goes out', () => {
  test('loses no POST and sees none twice if it announces Keep-Alive: timeout', async () => {
    const [bursts, atOnce] = [6, 250]
    const delays = monitorEventLoopDelay()
    delays.enable()
    onTestFinished(() => void delays.disable())

    async function race() {
      // It closes at the very time that it announced; the gateway closes them a second earlier.
      const upstream = await racingUpstream({
        idleMs: [1_950, 2_000],
        announce: 'Keep-Alive: timeout=2\r\n',
      })
      const gateway = await gatewayTo(upstream.url, { UPSTREAM_CONNECTIONS: atOnce })
      let burst = 0
      const pauses = [960, 1_960, 1_000, 1_985, 980, 1_940, 1_020, 2_000]
      delays.reset()
      const statuses = await postInBursts(gateway.url, {
        bursts,
        atOnce,
        pauseMs: () => pauses[burst++ % pauses.length] ?? 0,
      })
      const { seen, stoodStillMs } = await upstream.report()
      const times = Object.values(seen)
      expect(times.filter((count) => count > 1)).toEqual([])
      // If the two stand still for most of that second, they are too late by that alone, which shows nothing.
      return { statuses, seen: times, isLate: delays.max / 1e6 + stoodStillMs > 700 }
    }
    let { statuses, seen, isLate } = await race()
    for (let attempt = 0; isLate && attempt < 4; attempt += 1) ({ statuses, seen, isLate } = await race())
    expect(statuses).toEqual({ 200: bursts * atOnce })
    expect([seen.length, sum(seen)]).toEqual([bursts * atOnce, bursts * atOnce])
  })

  test('sees no POST twice if it closes unannounced: a request that met the close is a 502', async () => {
    const [bursts, atOnce] = [100, 20]
    const upstream = await racingUpstream({ idleMs: [0, 12], announce: '' })
    const gateway = await gatewayTo(upstream.url, { UPSTREAM_CONNECTIONS: atOnce, retries: 1 })
    const statuses = await postInBursts(gateway.url, { bursts, atOnce, pauseMs: between(0, 12) })
    const { 200: answered = 0, 502: lost = 0 } = statuses
    process.stdout.write(`closed unannounced: ${lost} of ${bursts * atOnce} POSTs were a 502\n`)
    expect(answered + lost).toBe(bursts * atOnce)
    const seen = Object.values((await upstream.report()).seen)
    expect(seen.filter((times) => times > 1)).toEqual([])
    expect(seen.length).toBeGreaterThanOrEqual(answered)
  })

  test('loses few of the requests that wait for a connection if it closes right after each answer', async () => {
    const upstream = await rawUpstream((socket) =>
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'),
    )
    const gateway = await gatewayTo(upstream.url, { UPSTREAM_CONNECTIONS: 2, queue: 100 })
    const statuses = await postInBursts(gateway.url, { bursts: 4, atOnce: 50, pauseMs: () => 0 })
    // Every second one, if the connection is used again in the same turn of the event loop.
    expect(statuses[200]).toBeGreaterThan(180)
  })
})

test.each([['204 No Content'], ['304 Not Modified']])(
  'an upstream that sends the end of chunks after a %s, which has no body: the next POST takes another connection',
  async (status) => {
    const bodiless = `HTTP/1.1 ${status}\r\nTransfer-Encoding: chunked\r\n\r\n`
    const upstream = await rawUpstream((socket) => {
      socket.on('data', () => socket.write(`0\r\n\r\n${bodiless}`))
      socket.write(bodiless)
    })
    const gateway = await gatewayTo(upstream.url, { UPSTREAM_CONNECTIONS: 1 })
    const statuses = await postInBursts(gateway.url, { bursts: 2, atOnce: 3, pauseMs: () => 0 })
    expect(statuses).toEqual({ [parseInt(status, 10)]: 6 })
  },
)
