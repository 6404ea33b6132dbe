import { expect, test } from 'vitest'
import { type Answered, ask, keepAliveAgent } from '../support/clients/quotes.ts'
import { pause, recordingUpstream } from '../support/gateways/between.ts'
import { Fleet, type Replica } from '../support/gateways/fleet.ts'
import { environment } from '../support/machine/environment.ts'
import { valkey } from '../support/stores/valkey.ts'

/** `npm run check:long` asks for more. */
const seconds = Number(environment().PAUSED_SECONDS ?? 12)
const everyMs = 20
/** Around VALKEY_TIMEOUT_MS, and around the second that an order waits for the store. */
const shortPause = { fromMs: 30, toMs: 400 }
const longPause = { fromMs: 900, toMs: 1_400 }
const orderTakesMs = 5

const between = ({ fromMs, toMs }: typeof shortPause) =>
  fromMs + Math.random() * (toMs - fromMs)

interface Click {
  key: string
  answers: Promise<Answered[]>
}

// A container without its share of the processor, a machine that is moved: the replica stands still, the store does not.
test('replicas that stand still again and again, with a store that is well, send the order of each key once', {
  tags: ['redis-server'],
}, async () => {
  const store = await valkey()
  const arrivals = new Map<string, number>()
  const provider = await recordingUpstream(async ({ headers }, response) => {
    const key = String(headers['idempotency-key'])
    arrivals.set(key, (arrivals.get(key) ?? 0) + 1)
    await pause(orderTakesMs)
    response.writeHead(201).end(`{"for":"${key}"}`)
  })
  const fleet = new Fleet({ SWAP_BASE_URL: provider.url })
  const replicas = [await fleet.start('a', store.url), await fleet.start('b', store.url)]
  const agent = keepAliveAgent(1_000)
  const order = ({ url }: Replica, key: string) =>
    ask(url, {
      path: '/v3/orders/float',
      method: 'POST',
      headers: ['App-Name', 'wallet', 'Idempotency-Key', key],
      body: '{"pairId":"ETH_USDC","fromAmount":"0.1","toAddress":"0xab"}',
      agent,
    })
  /** The same click at both, the second time while the first is on its way or a little later. */
  const click = async (key: string) => {
    const [first, second] = Math.random() < 0.5 ? replicas : replicas.toReversed()
    if (first === undefined || second === undefined) throw new RangeError('two replicas')
    const answer = order(first, key)
    await pause(Math.random() * 2 * everyMs)
    return Promise.all([answer, order(second, key)])
  }

  let isOver = false
  let pauses = 0
  async function stopAndGo() {
    for (; !isOver; pauses += 1) {
      const { program } = replicas[pauses % replicas.length] as Replica
      program.child.kill('SIGSTOP')
      await pause(between(pauses % 4 < 2 ? longPause : shortPause))
      program.child.kill('SIGCONT')
      await pause(between(shortPause))
    }
  }
  const stopping = stopAndGo()
  const clicks: Click[] = []
  const endsAtMs = performance.now() + seconds * 1_000
  while (performance.now() < endsAtMs) {
    const key = `click-${clicks.length}`
    clicks.push({ key, answers: click(key) })
    await pause(everyMs)
  }
  isOver = true
  await stopping

  const said = (answers: readonly Answered[]) =>
    answers.map(({ status, body }) => (status === 201 ? body : `${status} ${body}`))
  for (const { key, answers } of clicks) {
    const answered = `{"for":"${key}"}`
    const isRight = (text: string) =>
      text === answered || text.includes('"urn:quotegate:problem:order-in-progress"')
    const texts = said(await answers)
    expect(texts.every(isRight), texts.join(' and ')).toBe(true)
    expect(texts, key).toContain(answered)
    expect(said(await Promise.all(replicas.map((one) => order(one, key)))), key).toEqual([
      answered,
      answered,
    ])
  }
  expect(pauses).toBeGreaterThan(seconds / 2)
  expect(clicks.length).toBeGreaterThan(seconds * 10)
  expect(
    clicks.filter(({ key }) => arrivals.get(key) !== 1).map(({ key }) => key),
  ).toEqual([])
})
