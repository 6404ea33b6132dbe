import { upstreamNames, upstreamTable } from '../http/upstreams.ts'
import { tlsFileSettings } from './settings/egress.ts'
import { traceSettings } from './settings/traces.ts'
import { fixedDefault, type SettingName, type SettingValues } from './settings.ts'

const traceNames = Object.keys(traceSettings) as (keyof typeof traceSettings)[]

interface Idle {
  names: readonly SettingName[]
  /** Why they have no effect, and what would give them one. */
  because: string
  remedy: string
}

/** Settings that were set to another value than their default, and that nothing reads as the other settings are. */
export function withoutEffect(values: SettingValues, isSet: (name: SettingName) => boolean): string[] {
  const wasChanged = (name: SettingName) => isSet(name) && String(values[name]) !== fixedDefault(name)
  return idleSettings(values).flatMap(({ names, because, remedy }) =>
    names
      .filter(wasChanged)
      .map((name) => `${name} is set and has no effect, because ${because}. ${remedy}, or remove ${name}.`),
  )
}

function idleSettings(values: SettingValues): Idle[] {
  const idle: Idle[] = []
  const unless = (isUsed: boolean, ...[names, because, remedy]: [Idle['names'], string, string]) => {
    if (!isUsed) idle.push({ names, because, remedy })
  }
  unless(
    values.QUOTE_PARTITION === 'header',
    ['QUOTE_PARTITION_HEADER'],
    'QUOTE_PARTITION is not header',
    'Set QUOTE_PARTITION to header',
  )
  unless(
    values.TRUST_PROXY !== undefined,
    ['CLIENT_IP_HEADER'],
    'TRUST_PROXY is not set, so no proxy is trusted and the header is ignored',
    'Set TRUST_PROXY',
  )
  unless(
    values.RATE_LIMIT_PER_MINUTE > 0,
    ['RATE_LIMIT_BY'],
    'RATE_LIMIT_PER_MINUTE is 0, so no client is limited',
    'Set RATE_LIMIT_PER_MINUTE',
  )
  unless(
    values.VALKEY_URL !== undefined,
    ['VALKEY_KEY_PREFIX', 'VALKEY_TIMEOUT_MS'],
    'VALKEY_URL is not set',
    'Set VALKEY_URL',
  )
  unless(
    values.OTEL_EXPORTER_OTLP_ENDPOINT !== undefined,
    traceNames.filter((name) => name !== 'OTEL_EXPORTER_OTLP_ENDPOINT'),
    'OTEL_EXPORTER_OTLP_ENDPOINT is not set, so nothing is traced',
    'Set OTEL_EXPORTER_OTLP_ENDPOINT',
  )
  unless(
    values.OTEL_TRACES_SAMPLER.endsWith('traceidratio') || values.OTEL_EXPORTER_OTLP_ENDPOINT === undefined,
    ['OTEL_TRACES_SAMPLER_ARG'],
    `OTEL_TRACES_SAMPLER is ${values.OTEL_TRACES_SAMPLER}`,
    'Set OTEL_TRACES_SAMPLER to traceidratio or parentbased_traceidratio',
  )
  const isHttps = (url: string | undefined) => url?.startsWith('https:') === true
  unless(
    isHttps(values.SWAP_BASE_URL),
    Object.values(tlsFileSettings('swap')),
    'SWAP_BASE_URL is not an https URL',
    'Use https in SWAP_BASE_URL',
  )
  unless(
    isHttps(values.PAYMENTS_BASE_URL) || isHttps(values.WEBHOOKS_BASE_URL),
    Object.values(tlsFileSettings('payments')),
    'neither PAYMENTS_BASE_URL nor WEBHOOKS_BASE_URL is an https URL',
    'Use https in one of them',
  )
  unless(
    upstreamNames.some((name) => isHttps(values[upstreamTable[name].baseUrl.setting])),
    ['UPSTREAM_PROXY'],
    'no upstream has an https URL',
    'Use https in a base URL',
  )
  unless(
    values.PAYMENTS_BASE_URL !== undefined || values.SWAP_BASE_URL === 'sandbox',
    ['PAYMENTS_PATHS'],
    'PAYMENTS_BASE_URL is not set, so these paths are answered with 404',
    'Set PAYMENTS_BASE_URL',
  )
  return idle
}
