import { expect, onTestFinished, test } from 'vitest'
import { systemTimers } from '../../src/clock.ts'
import { Breaker } from '../../src/upstream/breakers.ts'
import { Connections } from '../../src/upstream/connections.ts'
import { recordingUpstream, until } from '../support/gateways/between.ts'

// A timer may fire a moment early, and the breaker may become due between two looks at the clock.
test('a breaker that becomes due right after a refusal keeps no request waiting', async () => {
  const upstream = await recordingUpstream()
  let nowMs = 1_000
  let looks = 1
  const breaker = new Breaker('pair', {
    failures: 1,
    minFailingMs: 0,
    openMs: 5_000,
    onChange() {},
    nowMs() {
      looks += 1
      // The first look at the clock, once it is set to 0, is too early by a moment.
      return looks === 1 ? nowMs - 0.001 : nowMs
    },
  })
  breaker.admit()?.failed()
  nowMs = 1_000 + 5_000
  looks = 0
  const limits = {
    connections: 2,
    reserved: 1,
    queue: 16,
    maxAgeMs: 60_000,
    connectTimeoutMs: 3_000,
  }
  const others = { breaker, lookup: undefined, timers: systemTimers, client: {} }
  const connections = new Connections({ origin: upstream.url, ...limits, ...others })
  onTestFinished(() => connections.close())
  let started = false
  const send = () => {
    started = true
  }
  connections.take({ lane: 'other', send, failed() {}, recheck() {} })
  expect(started).toBe(false)
  await until(() => started, 'its connection')
})
