import { expect, test } from 'vitest'
import { ask, keepAliveAgent } from '../support/clients/quotes.ts'
import { pause, recordingUpstream } from '../support/gateways/between.ts'
import { Fleet, type Replica } from '../support/gateways/fleet.ts'
import { environment } from '../support/machine/environment.ts'
import { valkey } from '../support/stores/valkey.ts'

/** `npm run check:long` asks for more. */
const rounds = Number(environment().PAUSED_ROUNDS ?? 12)
const clicksOfRound = 40
/** The stop comes while their claims are on the way to the store, or their answers back. */
const clickWithinMs = 8
const stopWithinMs = 10
/** In turns: around VALKEY_TIMEOUT_MS, and around the second that an order waits for the store. */
const pausesMs = { short: { from: 60, to: 160 }, long: { from: 950, to: 1_300 } }

const between = ({ from, to }: { from: number; to: number }) =>
  from + Math.random() * (to - from)

// A container without its share of the processor, a machine that is moved: the replica stands still, the store does not.
test('a click that was answered at one replica is not sent by another that stands still while it asks the store', {
  tags: ['redis-server'],
}, async () => {
  const store = await valkey()
  const arrivals = new Map<string, number>()
  const provider = await recordingUpstream(({ headers }, response) => {
    const key = String(headers['idempotency-key'])
    arrivals.set(key, (arrivals.get(key) ?? 0) + 1)
    response.writeHead(201).end(`{"for":"${key}"}`)
  })
  const fleet = new Fleet({ SWAP_BASE_URL: provider.url })
  const replicas = [await fleet.start('a', store.url), await fleet.start('b', store.url)]
  const agent = keepAliveAgent(1_000)
  const click = async ({ url }: Replica, key: string) => {
    const { status, body } = await ask(url, {
      path: '/v3/orders/float',
      method: 'POST',
      headers: ['App-Name', 'wallet', 'Idempotency-Key', key],
      body: '{"pairId":"ETH_USDC","fromAmount":"0.1","toAddress":"0xab"}',
      agent,
    })
    return status === 201 ? body : `${status} ${body}`
  }

  for (let round = 0; round < rounds; round += 1) {
    const [stopped, other] = round % 2 === 0 ? replicas : replicas.toReversed()
    if (stopped === undefined || other === undefined) throw new RangeError('two replicas')
    const keys = Array.from({ length: clicksOfRound }, (_, at) => `click-${round}-${at}`)
    const answers = keys.map((key) => `{"for":"${key}"}`)
    expect(await Promise.all(keys.map((key) => click(other, key)))).toEqual(answers)
    const again = keys.map(async (key) => {
      await pause(Math.random() * clickWithinMs)
      return click(stopped, key)
    })
    await pause(Math.random() * stopWithinMs)
    stopped.program.child.kill('SIGSTOP')
    await pause(between(round % 3 === 0 ? pausesMs.short : pausesMs.long))
    stopped.program.child.kill('SIGCONT')
    expect(await Promise.all(again)).toEqual(answers)
  }
  expect(arrivals.size).toBe(rounds * clicksOfRound)
  expect([...arrivals].filter(([, times]) => times > 1)).toEqual([])
})
