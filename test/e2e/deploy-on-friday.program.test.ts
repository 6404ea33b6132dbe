import { Agent } from 'node:http'
import { expect, it } from 'vitest'
import { giveQuote, quoteBody, quotePath } from '../support/clients/quotes.ts'
import { startBalancer } from '../support/gateways/balancer.ts'
import { pause, recordingUpstream } from '../support/gateways/between.ts'
import type { ListeningProgram } from '../support/gateways/program.ts'
import { send, startInstance } from '../support/gateways/rolling.ts'
import { valkey } from '../support/stores/valkey.ts'

const quoteFor = (amount: string) => ({ path: `${quotePath}?amount=${amount}` })
const orderFor = (quoted: string, reference: string) => {
  const { pairId, fromAmount, toAmount } = JSON.parse(quoted)
  const terms = {
    pairId,
    fromAmount: Number(fromAmount.value),
    toAmount: Number(toAmount.value),
  }
  return { path: '/v3/orders/float', body: JSON.stringify({ ...terms, reference }) }
}

/** Gives quotes that live for an hour, or for a second and a half if the amount is 66. */
const provider = () =>
  recordingUpstream(({ method, target }, response) => {
    if (method === 'POST') return void response.writeHead(201).end('{}')
    const value = new URLSearchParams(target.split('?')[1]).get('amount')
    const expiry = Date.now() + (value === '66' ? 1_500 : 3_600_000)
    giveQuote(response, quoteBody({ fromAmount: { assetId: 'ETH', value }, expiry }))
  })

it('three replicas are replaced under load and then the store is restarted: no request fails, no order is misjudged', {
  tags: ['redis-server'],
}, async () => {
  const store = await valkey()
  const upstream = await provider()
  // Six programs share the machine of the test: none may take a slow answer for none.
  const settings = {
    VALKEY_URL: store.url,
    VALKEY_TIMEOUT_MS: '2000',
    DRAIN_DELAY_MS: '1000',
  }
  const start = () => startInstance(upstream.url, settings)
  const old = await Promise.all([start(), start(), start()])
  const balancer = await startBalancer(new Set(old))

  const outcomes = new Map<string, number>()
  const ordered: string[] = []
  let running = true
  const clients = Array.from({ length: 9 }, async (_, client) => {
    // Two in three keep their connection, as pools do; the others open a new one each time.
    const agent =
      client % 3 === 0 ? undefined : new Agent({ keepAlive: true, maxSockets: 1 })
    const count = ({ outcome }: { outcome: string }) =>
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    for (let turn = 0; running; turn += 1) {
      const quoted = await send(balancer.url, agent, quoteFor(`${(turn % 5) + 1}`))
      count(quoted)
      if (turn % 4 !== 0 || quoted.body === '') continue
      const reference = `${client}/${turn}`
      ordered.push(reference)
      count(await send(balancer.url, agent, orderFor(quoted.body, reference)))
    }
    agent?.destroy()
  })

  const [first] = old
  const live = await send(first.url, undefined, quoteFor('55'))
  const short = await send(first.url, undefined, quoteFor('66'))
  const replaced: ListeningProgram[] = []
  for (const instance of old) {
    const next = await start()
    balancer.backends.add(next)
    replaced.push(next)
    instance.child.kill('SIGTERM')
    expect((await instance.exit).code).toBe(0)
    balancer.backends.delete(instance)
  }

  const latest = replaced.at(-1) as ListeningProgram
  expect((await send(latest.url, undefined, orderFor(live.body, 'live'))).outcome).toBe(
    'POST 201',
  )
  // For two seconds after its start a replica lets late orders pass, because others may know more.
  await pause(3_000)
  const refused = await send(latest.url, undefined, orderFor(short.body, 'late'))
  expect(refused).toEqual({
    outcome: 'POST 409',
    body: expect.stringContaining('problem:quote-expired'),
  })

  await store.restartEmpty()
  await pause(2_000)
  running = false
  await Promise.all(clients)

  expect([...outcomes.keys()].sort()).toEqual(['GET 200', 'POST 201'])
  const arrived = upstream.requests.flatMap(({ method, body }) =>
    method === 'POST' ? [JSON.parse(body.toString()).reference] : [],
  )
  expect(arrived.sort()).toEqual([...ordered, 'live'].sort())
  for (const instance of [...old, ...replaced])
    expect(balancer.given.get(instance)).toBeGreaterThan(0)
})
