import { vi } from 'vitest'
import type { SettingValue } from '../../src/config/problems.ts'
import type { GatewayOverrides } from '../../src/gateway/types.ts'
import { gatewayWith } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import { keptLog, type LogLine } from '../support/observing/log-lines.ts'

export interface LoggedGateway extends RunningGateway {
  /** What it has logged, as written. */
  text(): string
  lines(): LogLine[]
  /** The lines of the access log, once there are so many. */
  requests(count: number): Promise<LogLine[]>
}

/** A gateway that logs each request, and keeps its log. */
export async function startLogged(
  settings: Record<string, SettingValue>,
  overrides: GatewayOverrides = {},
): Promise<LoggedGateway> {
  const log = await keptLog(String(settings.LOG_LEVEL ?? 'info'))
  const gateway = await gatewayWith(
    { ACCESS_LOG: 'on', ...settings },
    { ...overrides, logger: log.logger },
  )
  return {
    ...gateway,
    ...log,
    requests: (count) =>
      vi.waitFor(() => {
        const requests = log.lines().filter((line) => line.log === 'access')
        if (requests.length < count)
          throw new Error(`${requests.length} of ${count} lines`)
        return requests
      }, 60_000),
  }
}
