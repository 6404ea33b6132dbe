import { expect, test } from 'vitest'
import { Slowest } from '../../src/operations/slowest.ts'
import type { Exchange } from '../../src/server/exchange.ts'
import { asking, giveQuote } from '../support/clients/quotes.ts'
import { gatewayTo, pause, recordingUpstream } from '../support/gateways/between.ts'

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'

/** An exchange that took so long until now. */
function ended(id: string, nowMs: number, tookMs: number): [Exchange, number, number] {
  const exchange = { area: 'quote', request: { method: 'GET' }, id, startedAtMs: nowMs - tookMs }
  return [exchange as unknown as Exchange, 200, tookMs]
}

test('the slowest request is forgotten within a minute, and the next slowest takes its place', () => {
  let now = 1_000_000
  const slowest = new Slowest(() => now)
  expect(slowest.find()).toBeUndefined()
  slowest.requestEnded(...ended('slow', now, 900))
  now += 20_000
  slowest.requestEnded(...ended('faster', now, 500))
  slowest.requestEnded(...ended('fastest', now, 100))
  expect(slowest.find()).toMatchObject({ requestId: 'slow', durationMs: 900 })
  now += 41_000
  expect(slowest.find()?.requestId).toBe('faster')
  now += 60_000
  expect(slowest.find()).toBeUndefined()
})

test("/status shows the slowest request with its trace, and without the client's own texts", async () => {
  const upstream = await recordingUpstream(async ({ target }, response) => {
    if (target.includes('amount=9')) await pause(300)
    giveQuote(response)
  })
  const gateway = await gatewayTo(upstream.url)
  const before = await (await fetch(`${gateway.operationsUrl}/status`)).json()
  expect(before).toMatchObject({ slowest: null })
  await asking(gateway.url, '9', ['App-Name', 'wallet', 'traceparent', `00-${traceId}-00f067aa0ba902b7-01`])
  const { slowest } = (await (await fetch(`${gateway.operationsUrl}/status`)).json()) as { slowest: object }
  expect(slowest).toEqual({
    area: 'quote',
    method: 'GET',
    status: 200,
    durationMs: expect.any(Number),
    agoMs: expect.any(Number),
    requestId: expect.any(String),
    traceId,
    sampled: false,
  })
})
