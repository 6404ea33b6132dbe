import type { Events } from '../events.ts'
import type { SummedLog } from '../process/summed-log.ts'
import type { SamplerName } from './sampler.ts'

export interface OtlpOptions {
  /** `/v1/traces` is appended. */
  endpoint: string
  headers: Readonly<Record<string, string>>
  protocol: 'http/json' | 'http/protobuf'
  resource: Readonly<Record<string, string>>
  sampler: SamplerName
  samplerRatio: number
  batchDelayMs: number
  version: string
  /** Whether the flag of its `traceparent` counts. */
  isTrustedPeer(address: string | undefined): boolean
  log: SummedLog
  events: Events
}
