import { expect, test } from 'vitest'
import type { RateLimiter, Taken } from '../../src/client/rate-limiter.ts'
import { counted } from '../support/clients/quotes.ts'
import { RawConnection } from '../support/clients/raw-connection.ts'
import {
  gatewayWith,
  pause,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'

const heldBytes = (gateway: RunningGateway) =>
  counted(gateway, 'quotegate_request_bodies_held_bytes')

test('the memory of a body is freed if its client leaves while a slow store counts its request', async () => {
  const upstream = await recordingUpstream()
  const allow: (() => void)[] = []
  const rateLimiter: RateLimiter = {
    perMinute: 10,
    take: () =>
      new Promise<Taken>((resolve) => {
        allow.push(() => resolve({ allowed: true, remaining: 5, resetMs: 30_000 }))
      }),
  }
  const gateway = await gatewayWith(
    { SWAP_BASE_URL: upstream.url, RATE_LIMIT_PER_MINUTE: 10 },
    { rateLimiter },
  )
  const head =
    'POST /v3/orders HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\nContent-Length: 70000\r\n\r\n'
  const client = new RawConnection(gateway.url, head)
  await pause(100)
  client.write('o'.repeat(66_000))
  await until(() => allow.length === 1, 'the order to be counted')
  client.write('o'.repeat(4_000))
  await pause(200)
  expect(await heldBytes(gateway)).toBe(66_000)
  client.socket.resetAndDestroy()
  await pause(200)
  allow[0]?.()
  await pause(200)
  expect(await heldBytes(gateway)).toBe(0)
  expect(upstream.requests).toEqual([])
})
