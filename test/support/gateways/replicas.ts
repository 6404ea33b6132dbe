import type { ServerResponse } from 'node:http'
import type { SettingValue } from '../../../src/config/problems.ts'
import type { GatewayOverrides } from '../../../src/gateway/types.ts'
import { type Answered, counted } from '../clients/quotes.ts'
import { type ValkeyServer, valkey } from '../stores/valkey.ts'
import type { RecordingUpstream } from '../upstreams/recording-upstream.ts'
import { gatewayWith, pause, recordingUpstream } from './between.ts'
import type { RunningGateway } from './gateway.ts'

export interface ReplicaStage {
  store: ValkeyServer
  upstream: RecordingUpstream
  replicas: readonly RunningGateway[]
  /** The first two of them. */
  here: RunningGateway
  there: RunningGateway
  /** Calls that the upstream got and the test has not answered. */
  waiting: ServerResponse[]
}

/** Patient with the store, since all of them share the machine of the test. */
export function replicaSettings(
  store: Pick<ValkeyServer, 'url'>,
  upstream: { url: string },
) {
  return {
    SWAP_BASE_URL: upstream.url,
    VALKEY_URL: store.url,
    VALKEY_TIMEOUT_MS: '2000',
    lockWaitMs: '60000',
    // A GET whose connection died is sent once more, which is another test's matter.
    retries: '0',
    UPSTREAM_HEADERS_TIMEOUT_MS: '600000',
    UPSTREAM_TOTAL_TIMEOUT_MS: '600000',
  }
}

/** Gateways in this process on one real store, and one upstream, which the test answers. */
export async function replicaStage(
  count: number,
  settings: Record<string, SettingValue | undefined> = {},
  overrides: (index: number) => GatewayOverrides = () => ({}),
  /** Settings of each alone. */
  own: (index: number, store: ValkeyServer) => Record<string, SettingValue> = () => ({}),
): Promise<ReplicaStage> {
  const store = await valkey()
  const waiting: ServerResponse[] = []
  const upstream = await recordingUpstream((_request, response) => waiting.push(response))
  const replicas: RunningGateway[] = []
  for (let index = 0; index < count; index += 1) {
    const all = {
      ...replicaSettings(store, upstream),
      ...settings,
      ...own(index, store),
    }
    const gateway = await gatewayWith(all, overrides(index))
    replicas.push(gateway)
  }
  for (const gateway of replicas) await untilSharing(gateway)
  const [here, there = here] = replicas
  if (here === undefined || there === undefined) throw new RangeError('at least one')
  return { store, upstream, replicas, here, there, waiting }
}

/** Asks until the answer is as it should be. */
export async function eventually(
  what: string,
  holds: () => Promise<boolean>,
): Promise<void> {
  const deadline = performance.now() + 45_000
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`still waiting: ${what}`)
    await pause(5)
  }
}

async function untilSharing(gateway: RunningGateway): Promise<void> {
  await eventually(
    'the store to be up',
    async () => (await counted(gateway, 'quotegate_store_up')) === 1,
  )
}

export const stored = (operation: string) =>
  `quotegate_store_operations_total{op="${operation}",outcome="ok"}`

export const idOf = ({ body }: Answered): string => JSON.parse(body).id

export const cacheStatusOf = ({ headers }: Answered) =>
  headers['cache-status']?.toString() ?? ''
