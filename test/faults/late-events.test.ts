import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { RawConnection } from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  pause,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'

// Clients and upstreams that leave at random are in queue-stress.test.ts.

test("a client's broken chunk while the upstream answers: at most one answer, and the gateway keeps running", async () => {
  const escaped = escapedErrors()
  const waiting: ServerResponse[] = []
  const upstream = await recordingUpstream(undefined, {
    listener: (_request, response) => waiting.push(response),
  })
  const gateway = await gatewayTo(upstream.url)
  for (let count = 0; count < 10; count += 1) {
    const client = new RawConnection(gateway.url)
    client.write(
      'POST /checkouts HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n',
    )
    await until(() => waiting.length === count + 1, 'the request to arrive')
    client.write('zz\r\n')
    waiting[count]?.end('answer')
    const answer = await client.answer()
    expect([0, 200, 400]).toContain(answer.status)
    expect(client.received.toString()).not.toContain('HTTP/1.1')
    client.socket.destroy()
  }
  await pause(100)
  expect(escaped).toEqual([])
})
