import type { SettingValues } from './settings.ts'

/** How spans are made and where they go; undefined: nothing is traced. */
export function tracesOf(values: SettingValues) {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_SERVICE_NAME: name } = values
  if (endpoint === undefined) return undefined
  const named = name === undefined ? undefined : { 'service.name': name }
  return {
    endpoint,
    headers: values.OTEL_EXPORTER_OTLP_HEADERS ?? {},
    protocol: values.OTEL_EXPORTER_OTLP_PROTOCOL,
    resource: { 'service.name': 'quotegate', ...values.OTEL_RESOURCE_ATTRIBUTES, ...named },
    sampler: values.OTEL_TRACES_SAMPLER,
    samplerRatio: values.OTEL_TRACES_SAMPLER_ARG,
    batchDelayMs: values.OTEL_BSP_SCHEDULE_DELAY,
  }
}
