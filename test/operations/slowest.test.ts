import { expect, test } from 'vitest'
import { completeClock } from '../../src/clock.ts'
import { type Counts, History } from '../../src/operations/history.ts'
import type { Exchange } from '../../src/server/exchange.ts'
import { asking, giveQuote } from '../support/clients/quotes.ts'
import { gatewayTo, pause, recordingUpstream } from '../support/gateways/between.ts'

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'

/** An exchange that took so long. */
function ended(id: string, tookMs: number): [Exchange, number, number] {
  const exchange = { area: 'quote', request: { method: 'GET' }, id }
  return [exchange as unknown as Exchange, 200, tookMs]
}

test('the slowest request is forgotten within a minute, and the next slowest takes its place', () => {
  let now = 1_000_000
  const history = new History(completeClock({ nowMs: () => now }))
  const pass = (ms: number) => {
    now += ms
    history.tick({ sums: {}, inFlight: 0 } as unknown as Counts)
  }
  expect(history.slowest).toBeNull()
  history.requestEnded(...ended('slow', 900))
  pass(20_000)
  history.requestEnded(...ended('faster', 500))
  history.requestEnded(...ended('fastest', 100))
  expect(history.slowest).toMatchObject({ requestId: 'slow', durationMs: 900, agoMs: 20_000 })
  pass(41_000)
  expect(history.slowest?.requestId).toBe('faster')
  pass(60_000)
  expect(history.slowest).toBeNull()
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
