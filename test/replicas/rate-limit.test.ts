import { describe, expect, it, onTestFinished } from 'vitest'
import { asking, counted, giveQuote } from '../support/clients/quotes.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { type RunningGateway, startGateway } from '../support/gateways/gateway.ts'
import { eventually } from '../support/gateways/replicas.ts'
import { type ValkeyServer, valkey } from '../support/stores/valkey.ts'

const perMinute = 6

async function limitedReplicas(settings: Record<string, string> = {}) {
  const store = await valkey()
  const upstream = await recordingUpstream((_request, response) => giveQuote(response))
  const start = async () => {
    const gateway = await startGateway({
      SWAP_BASE_URL: upstream.url,
      VALKEY_URL: store.url,
      VALKEY_TIMEOUT_MS: '2000',
      RATE_LIMIT_PER_MINUTE: perMinute,
      ...settings,
    })
    onTestFinished(() => gateway.close())
    return gateway
  }
  const replicas = [await start(), await start()]
  await untilUp(replicas, 1)
  let amount = 0
  /** Each for an amount of its own, so that each is a call of its own. */
  async function ask(gateway: RunningGateway) {
    amount += 1
    return asking(gateway.url, String(amount))
  }
  async function statuses(count: number): Promise<number[]> {
    const turns = Array.from({ length: count }, (_, turn) => replicas[turn % 2] as RunningGateway)
    const answers = await Promise.all(turns.map(ask))
    return answers.map(({ status }) => status).sort()
  }
  return { store, upstream, replicas, ask, statuses }
}

async function untilUp(replicas: readonly RunningGateway[], up: 0 | 1): Promise<void> {
  await eventually(`quotegate_store_up to be ${up}`, async () => {
    const states = await Promise.all(replicas.map((gateway) => counted(gateway, 'quotegate_store_up')))
    return states.every((state) => state === up)
  })
}

const times = (count: number, status: number) => Array.from({ length: count }, () => status)

describe('a limit of two gateways', { tags: ['redis-server'] }, () => {
  it('allows exactly the set number of requests, however they are spread', async () => {
    const { statuses, upstream, replicas, ask } = await limitedReplicas()
    expect(await statuses(20)).toEqual([...times(perMinute, 200), ...times(20 - perMinute, 429)])
    expect(upstream.requests).toHaveLength(perMinute)
    const refused = await ask(replicas[1] as RunningGateway)
    expect(refused.headers['ratelimit-policy']).toBe(`"default";q=${perMinute};w=60`)
    expect(refused.headers.ratelimit).toMatch(/^"default";r=0;t=\d+$/)
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
  })

  it.each<[string, (store: ValkeyServer) => Promise<void> | void]>([
    ['dies', (store) => store.kill()],
    ['freezes', (store) => store.freeze()],
  ])(
    'is kept by each gateway for itself while the store %s, fails no request, and is shared again after that',
    async (_how, fail) => {
      const { statuses, store, replicas } = await limitedReplicas()
      expect(await statuses(2)).toEqual(times(2, 200))
      await fail(store)
      const during = await statuses(40)
      expect(during).toEqual([...times(2 * perMinute, 200), ...times(40 - 2 * perMinute, 429)])
      await untilUp(replicas, 0)
      store.thaw()
      await store.restartEmpty()
      await untilUp(replicas, 1)
      expect(await statuses(20)).toEqual([...times(perMinute, 200), ...times(20 - perMinute, 429)])
    },
  )
})
