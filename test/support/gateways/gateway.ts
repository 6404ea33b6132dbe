import type { SettingValue } from '../../../src/config/problems.ts'
import { createGateway } from '../../../src/gateway/gateway.ts'
import type { Gateway, GatewayOverrides } from '../../../src/gateway/types.ts'
import { withoutLimits } from './limits.ts'

export interface RunningGateway extends Gateway {
  url: string
  operationsUrl: string
}

/** That of the default has its slots from the start, which was half of the time that a gateway takes to start. */
const cache = { QUOTE_CACHE_ENTRIES: 1_000 }

/** A test that provokes failures on end must not have them answered by the breaker, whose own tests set it. */
const noBreaker = { breakerFailures: 1_000_000 }

/** A busy machine lets others wait for longer than callers do. */
const patience = { waitMs: 60_000, floatOrderWaitMs: 60_000 }

/** For a test of how long requests wait for a connection. */
export const ownPatience = { waitMs: undefined, floatOrderWaitMs: undefined }

/** A gateway on free ports, with these settings and limits. */
export async function startGateway(
  given: Record<string, SettingValue | undefined> = {},
  overrides: GatewayOverrides = {},
): Promise<RunningGateway> {
  const all = {
    PORT: 0,
    ADMIN_PORT: 0,
    ...noBreaker,
    ...patience,
    ...cache,
    ...given,
  }
  const { settings, limits } = withoutLimits(all)
  const gateway = await createGateway(settings, { limits, ...overrides })
  const { trafficUrl, operationsUrl } = await gateway.listen()
  return { ...gateway, url: trafficUrl, operationsUrl }
}
