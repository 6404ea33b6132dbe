import type { SettingValue } from '../../../src/config/problems.ts'
import type { GatewayOverrides } from '../../../src/gateway/types.ts'
import { asIfKilled, newFolder } from '../../journal/disk-support.ts'
import { statusOf } from '../../operations/support.ts'
import { clockedProvider, type OrderClient, orderClient } from '../clients/orders.ts'
import { gatewayWith, pause } from './between.ts'
import type { RunningGateway } from './gateway.ts'

export interface StartedGateway extends RunningGateway, OrderClient {
  state(): Promise<Record<string, number>>
  /** Resolves once all that was noted is in the folder. */
  written(): Promise<void>
}

/**
 * Gateways that follow each other over one folder, before a provider that remembers what reached it. Their wall clock
 * stands still until it is set.
 */
export async function restartStage(settings: Record<string, SettingValue> = {}) {
  const stage = await clockedProvider()
  const { clock, upstream } = stage
  let folder = newFolder()

  async function start(
    overrides: Partial<GatewayOverrides> = {},
    more: Record<string, SettingValue> = {},
  ) {
    const gateway = await gatewayWith(
      { SWAP_BASE_URL: upstream.url, STATE_DIRECTORY: folder, ...settings, ...more },
      { clock, ...overrides },
    )
    const state = async () => (await statusOf(gateway)).journal.disk
    return {
      ...gateway,
      ...orderClient(gateway),
      state,
      async written() {
        while ((await state()).waiting !== 0) await pause(20)
      },
    } satisfies StartedGateway
  }

  return {
    ...stage,
    start,
    get folder() {
      return folder
    },
    /** The next gateway finds the folder as kill -9 would leave it now. */
    async kill(gateway: StartedGateway): Promise<void> {
      await gateway.written()
      folder = asIfKilled(folder)
    },
  }
}
