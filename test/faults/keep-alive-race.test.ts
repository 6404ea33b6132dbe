import { monitorEventLoopDelay } from 'node:perf_hooks'
import { describe, expect, onTestFinished, test } from 'vitest'
import { RawConnection } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream } from '../support/gateways/between.ts'
import { racingUpstream } from '../support/upstreams/racing-upstream.ts'

/** So many clients, who POST all at once; how many of the POSTs came back with which status is added to `statuses`. */
function clientsOf(gatewayUrl: string, atOnce: number) {
  const clients = Array.from({ length: atOnce }, () => new RawConnection(gatewayUrl))
  let bursts = 0
  return async (
    statuses: Record<number, number> = {},
  ): Promise<Record<number, number>> => {
    bursts += 1
    await Promise.all(
      clients.map(async (client, index) => {
        client.write(
          `POST /checkouts/${bursts}-${index} HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}`,
        )
        const { status } = await client.answer()
        statuses[status] = (statuses[status] ?? 0) + 1
      }),
    )
    return statuses
  }
}

/** POSTs, so many at a time with a pause between. */
async function postInBursts(
  gatewayUrl: string,
  options: { bursts: number; atOnce: number; pauseMs: () => number },
): Promise<Record<number, number>> {
  const statuses: Record<number, number> = {}
  const post = clientsOf(gatewayUrl, options.atOnce)
  for (let burst = 0; burst < options.bursts; burst += 1) {
    await post(statuses)
    await pause(options.pauseMs())
  }
  return statuses
}

const between = (least: number, most: number) => () =>
  least + Math.random() * (most - least)

describe('an upstream that closes idle connections just as the next POST goes out', () => {
  test('loses no POST and sees none twice if it announces Keep-Alive: timeout', async ({
    skip,
  }) => {
    const atOnce = 250
    const pausesMs = [0, 960, 1_960, 1_000, 1_985, 980]
    /** After which of the pauses no burst has been judged. */
    const unjudged = new Set(pausesMs)
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
      const post = clientsOf(gateway.url, atOnce)
      let answeredAtMs = performance.now()
      let stoodStillMs: { here: number; there: number }[] = []
      for (const pauseMs of pausesMs) {
        await pause(pauseMs - (performance.now() - answeredAtMs))
        const statuses = await post()
        answeredAtMs = performance.now()
        const report = await upstream.report()
        expect(Object.values(report.seen).filter((count) => count > 1)).toEqual([])
        // Of this burst and the two before, since which a connection may be idle.
        stoodStillMs = [
          ...stoodStillMs.slice(-2),
          { here: delays.max / 1e6, there: report.stoodStillMs },
        ]
        delays.reset()
        const longestMs = (where: 'here' | 'there') =>
          Math.max(...stoodStillMs.map((ms) => ms[where]))
        // If the two stand still for most of that second, they are too late by that alone, which shows nothing.
        if (longestMs('here') + longestMs('there') > 700) continue
        expect(statuses).toEqual({ 200: atOnce })
        unjudged.delete(pauseMs)
      }
    }
    for (let attempt = 1; attempt <= 5 && unjudged.size > 0; attempt += 1) await race()
    skip(
      unjudged.size > 0,
      `one of the two stood still in each race, after ${[...unjudged]} ms`,
    )
  })

  test('sees no POST twice if it closes unannounced: a request that met the close is a 502', async () => {
    const [bursts, atOnce] = [100, 20]
    const upstream = await racingUpstream({ idleMs: [0, 12], announce: '' })
    const gateway = await gatewayTo(upstream.url, {
      UPSTREAM_CONNECTIONS: atOnce,
      retries: 1,
    })
    const statuses = await postInBursts(gateway.url, {
      bursts,
      atOnce,
      pauseMs: between(0, 12),
    })
    const { 200: answered = 0, 502: lost = 0 } = statuses
    process.stdout.write(
      `closed unannounced: ${lost} of ${bursts * atOnce} POSTs were a 502\n`,
    )
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
    const statuses = await postInBursts(gateway.url, {
      bursts: 4,
      atOnce: 50,
      pauseMs: () => 0,
    })
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
    const statuses = await postInBursts(gateway.url, {
      bursts: 2,
      atOnce: 3,
      pauseMs: () => 0,
    })
    expect(statuses).toEqual({ [parseInt(status, 10)]: 6 })
  },
)
