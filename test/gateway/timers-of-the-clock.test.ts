import { expect, onTestFinished, test } from 'vitest'
import { recordingUpstream, until } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { VirtualTime } from '../support/machine/virtual-time.ts'

// This test waits neither for the deadline of a quote nor for the five seconds of an open breaker.
test('deadlines and breakers go by the timers of the clock', async () => {
  const upstream = await recordingUpstream(() => {})
  const timers = new VirtualTime()
  const settings = {
    SWAP_BASE_URL: upstream.url,
    QUOTE_PARTITION: 'none',
    breakerFailures: 2,
    UPSTREAM_TOTAL_TIMEOUT_MS: 8_000,
  }
  const clock = { nowMs: () => Date.now(), timers }
  const gateway = await startGateway(settings, { clock })
  onTestFinished(() => gateway.close())

  let asked = 0
  const ask = async (passMs: number): Promise<number | 'waits'> => {
    asked += 1
    const target = `/v3/pairs/ETH_USDC/quotes?amount=${asked}`
    const answer = fetch(gateway.url + target, { headers: { 'App-Name': 'wallet' } })
    const { length } = upstream.requests
    const isAnswered = answer.then(({ status }) => status)
    await Promise.race([isAnswered, until(() => upstream.requests.length > length, 'the provider is asked')])
    await timers.pass(passMs)
    const soon = new Promise<'waits'>((resolve) => setTimeout(resolve, 50, 'waits'))
    return Promise.race([isAnswered, soon])
  }

  expect(await ask(7_999)).toBe('waits')
  // The first has failed before this one, and both open the breaker.
  expect(await ask(8_000)).toBe(504)
  expect(await ask(0)).toBe(503)
  await timers.pass(4_900)
  expect(await ask(0)).toBe(503)
  await timers.pass(100)
  expect(await ask(8_000)).toBe(504)
})
