/** What `import … from 'quotegate'` gives. Everything else is the gateway's own and may change. */
export type { RateLimiter, Taken } from './client/rate-limiter.ts'
export type { Clock } from './clock.ts'
export { type SettingProblem, SettingsError, type SettingValue } from './config/parse.ts'
export {
  createGateway,
  type Gateway,
  type GatewayOverrides,
  type GatewaySettings,
} from './gateway/gateway.ts'
export type { GatewayLogger, LogLevel } from './process/logger.ts'
export { ListenError } from './server/listen.ts'
