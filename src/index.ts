/** What `import … from 'quotegate'` gives. Everything else is the gateway's own and may change. */
export type { RateLimiter, Taken } from './client/rate-limiter.ts'
export type { Clock } from './clock.ts'
export { createGateway, type Gateway, type GatewayOverrides, type GatewaySettings } from './gateway.ts'
export { ListenError } from './listen.ts'
export type { GatewayLogger, LogLevel } from './logger.ts'
export { type SettingProblem, SettingsError, type SettingValue } from './settings/read.ts'
