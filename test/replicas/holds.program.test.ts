import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import type { SettingValue } from '../../src/config/problems.ts'
import { act, statusOf } from '../operations/support.ts'
import { orderClient } from '../support/clients/orders.ts'
import { gatewayWith, pause } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import {
  eventually,
  replicaSettings,
  replicaStage,
} from '../support/gateways/replicas.ts'
import { valkeyCluster } from '../support/stores/valkey.ts'

const hold = { reason: 'a wrong price', minutes: 30 }
const everywhere = 'at every replica within two seconds'
const here = 'at this replica only'
const order = '{"pairId":"ETH_USDC","fromAmount":1}'

async function stage(
  settings: Record<string, SettingValue | undefined> = {},
  overrides: Parameters<typeof replicaStage>[2] = () => ({}),
) {
  const all = { VALKEY_TIMEOUT_MS: '500', ...settings }
  const stage = await replicaStage(2, all, overrides)
  stage.upstream.answer((_request, response) => void response.writeHead(201).end('{}'))
  return {
    ...stage,
    settings: { ...replicaSettings(stage.store, stage.upstream), ...all },
  }
}

async function reachOf(gateway: RunningGateway, action: string, body: object) {
  return JSON.parse((await act(gateway, action, body)).body).reach
}

const statusOfOrder = async (gateway: RunningGateway) =>
  (await orderClient(gateway).order(order)).status

async function untilHeld(gateway: RunningGateway, isHeld: boolean): Promise<void> {
  const status = isHeld ? 503 : 201
  await eventually(
    `the order to be answered ${status}`,
    async () => (await statusOfOrder(gateway)) === status,
  )
}

describe('with a store a hold', () => {
  it('reaches every replica, also one that starts later, and so does its release', async () => {
    const { here: a, there: b, settings } = await stage()
    expect(await reachOf(a, 'hold', hold)).toBe(everywhere)
    expect(await statusOfOrder(a)).toBe(503)
    await untilHeld(b, true)
    const later = await gatewayWith(settings)
    // It has just begun to listen.
    expect(await statusOfOrder(later)).toBe(503)
    expect(await reachOf(b, 'release', {})).toBe(everywhere)
    expect(await statusOfOrder(b)).toBe(201)
    await untilHeld(a, false)
    await untilHeld(later, false)
  })

  it('holds at one replica while the store is away, and reaches the others when it is back, however empty', async () => {
    const { here: a, there: b, store } = await stage()
    await store.kill()
    await eventually('the store to be down', async () => !(await statusOf(a)).store.up)
    expect(await reachOf(a, 'hold', hold)).toBe(here)
    expect(await statusOfOrder(a)).toBe(503)
    expect(await statusOfOrder(b)).toBe(201)
    await store.restartEmpty()
    await untilHeld(b, true)
    // What the store lost is put there again.
    await store.ask('FLUSHALL')
    const found = async () =>
      Number(await store.ask('DBSIZE')) > 0 && (await keys(store)).length > 0
    await eventually('the holds to be in the store again', found)
    expect(await reachOf(b, 'release', {})).toBe(everywhere)
    await untilHeld(a, false)
  })

  it('holds at one replica while the store is full', async () => {
    const { here: a, there: b, store } = await stage()
    await store.ask('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    await store.ask('CONFIG', 'SET', 'maxmemory', '1')
    await eventually('the store to be down', async () => !(await statusOf(a)).store.up)
    expect(await reachOf(a, 'hold', hold)).toBe(here)
    expect(await statusOfOrder(a)).toBe(503)
    await store.ask('CONFIG', 'SET', 'maxmemory', '0')
    await untilHeld(b, true)
  })

  it.each([3_600_000, -3_600_000])(
    'ends when it was to end, and is released by who says so later, where a clock is %s ms ahead',
    async (aheadMs) => {
      const clock = { ...systemClock, nowMs: () => Date.now() + aheadMs }
      const { here: a, there: b } = await stage({}, (index) =>
        index === 0 ? { clock } : {},
      )
      await reachOf(a, 'hold', hold)
      await untilHeld(b, true)
      const [ofA] = (await statusOf(a)).holds
      const [ofB] = (await statusOf(b)).holds
      expect(Math.abs(ofA.until - aheadMs - ofB.until)).toBeLessThan(1_000)
      expect(Math.abs(ofB.since - Date.now())).toBeLessThan(60_000)
      expect(await reachOf(b, 'release', {})).toBe(everywhere)
      await untilHeld(a, false)
      await reachOf(b, 'hold', { ...hold, minutes: 0.05 })
      await untilHeld(a, true)
      await untilHeld(a, false)
      // Each replica counts to the end by a clock of its own.
      await eventually(
        'the hold to be over at both',
        async () => (await statusOf(b)).holds.length === 0,
      )
    },
  )

  it('and its release are the same everywhere in the end, when several come at the same time', async () => {
    const { here: a, there: b } = await stage()
    const seen = async (gateway: RunningGateway) =>
      JSON.stringify(
        (await statusOf(gateway)).holds.map(
          ({ pair, reason }: { pair: string; reason: string }) => [pair, reason],
        ),
      )
    for (let round = 0; round < 20; round += 1) {
      const pair = `A_${round % 3}`
      await Promise.all([
        act(
          a,
          round % 2 === 0 ? 'hold' : 'release',
          round % 2 === 0 ? { ...hold, reason: `a${round}`, pair } : { pair },
        ),
        act(b, 'hold', { ...hold, reason: `b${round}`, pair }),
        act(a, 'release', { pair }),
      ])
    }
    await eventually('both to say the same', async () => {
      const before = await seen(a)
      if (before !== (await seen(b))) return false
      // And to stay so.
      await pause(1_100)
      return before === (await seen(a)) && before === (await seen(b))
    })
  })

  it('that a shorter one has replaced is not brought back by who missed it', async () => {
    const { here: a, there: b, store } = await stage()
    await reachOf(a, 'hold', hold)
    await untilHeld(b, true)
    store.freeze()
    await eventually('the store to be down', async () => !(await statusOf(a)).store.up)
    await act(a, 'hold', { ...hold, reason: 'short', minutes: 0.001 })
    await untilHeld(a, false)
    // Longer than an ended hold would be looked for.
    await pause(1_500)
    store.thaw()
    await untilHeld(b, false)
    expect(await statusOfOrder(a)).toBe(201)
  })

  it('is beside the journal in a Cluster', async () => {
    const { url, servers } = await valkeyCluster()
    const { upstream } = await stage()
    const settings = { ...replicaSettings({ url }, upstream), VALKEY_TIMEOUT_MS: '500' }
    const [a, b] = [await gatewayWith(settings), await gatewayWith(settings)]
    await eventually('the store to be up', async () => (await statusOf(a)).store.up)
    await eventually(
      'the hold to be shared',
      async () => (await reachOf(a, 'hold', hold)) === everywhere,
    )
    await untilHeld(b, true)
    const slots = await Promise.all(
      servers.map(async (server) =>
        Promise.all(
          ((await server.ask('KEYS', 'quotegate:*')) as string[])
            .filter((key) => /^quotegate:(holds|journal):/.test(key))
            .map((key) => server.ask('CLUSTER', 'KEYSLOT', key)),
        ),
      ),
    )
    const found = slots.flat()
    expect(found).toHaveLength(2)
    expect(found[0]).toBe(found[1])
  })
})

async function keys(store: { ask(...command: string[]): Promise<unknown> }) {
  return (await store.ask('KEYS', 'quotegate:holds:*')) as string[]
}
