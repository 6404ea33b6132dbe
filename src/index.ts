/** What `import … from 'quotegate'` gives. Everything else is internal and may change. */
export type { GatewayClock as Clock } from './clock.ts'
export {
  type SettingProblem,
  SettingsError,
  type SettingValue,
} from './config/problems.ts'
export { createGateway } from './gateway/gateway.ts'
export type { GatewaySettings } from './gateway/settings.ts'
export type {
  Gateway,
  GatewayOverrides,
  RateLimiter,
  Taken,
} from './gateway/types.ts'
export { ListenError, StateError } from './process/errors.ts'
export type { GatewayLogger, LogLevel } from './process/logger.ts'
