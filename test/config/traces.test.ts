import { describe, expect, test } from 'vitest'
import { printConfig } from '../../src/config/help.ts'
import { loadConfig } from '../../src/config/load.ts'
import { SettingsError, type SettingValue } from '../../src/config/problems.ts'

type Given = Record<string, SettingValue>

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4318' }
const tracesOf = (given: Given) => loadConfig({ ...endpoint, ...given }).config.traces

function messageOf(given: Given): string {
  try {
    loadConfig({ ...endpoint, ...given })
  } catch (error) {
    if (error instanceof SettingsError) return error.message
    throw error
  }
  throw new Error('these settings were accepted')
}

test('without a collector nothing is traced, whatever other settings say', () => {
  const { config, warnings } = loadConfig({
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_TRACES_SAMPLER: 'always_on',
  })
  expect(config.traces).toBeUndefined()
  expect(
    warnings.filter((warning) => warning.includes('OTEL_EXPORTER_OTLP_ENDPOINT is not set')),
  ).toHaveLength(2)
})

test('the collector is the only required setting', () => {
  expect(tracesOf({})).toEqual({
    endpoint: 'http://localhost:4318',
    protocol: 'http/protobuf',
    sampler: 'parentbased_traceidratio',
    samplerRatio: 0.01,
  })
})

describe('refused is', () => {
  test.each<[string, Given]>([
    ['a collector with a password', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://user:sk_secret@localhost:4318' }],
    [
      'a collector whose path is appended twice',
      { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4318/v1/traces' },
    ],
    ['a collector that is quotegate itself', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:8080' }],
    ['gRPC', { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }],
    ['a share above 1', { OTEL_TRACES_SAMPLER_ARG: '1.5' }],
    ['a share in words', { OTEL_TRACES_SAMPLER_ARG: 'all' }],
    ['an unknown sampler', { OTEL_TRACES_SAMPLER: 'jaeger_remote' }],
  ])('%s', (_what, given) => {
    const message = messageOf(given)
    expect(message).toContain(Object.keys(given)[0])
    expect(message).not.toContain('sk_secret')
  })
})

test('the keys for the collector are shown nowhere, and to a collector on this machine they go without a warning', () => {
  const loaded = loadConfig({ ...endpoint, OTEL_EXPORTER_OTLP_HEADERS: 'api-key=sk_secret' })
  expect(loaded.warnings).toEqual([])
  expect(printConfig(loaded) + loaded.warnings).not.toContain('sk_secret')
})

test('warnings name a ratio that no sampler reads, a port for gRPC and keys sent without TLS', () => {
  const { warnings } = loadConfig({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector.example:4317',
    OTEL_EXPORTER_OTLP_HEADERS: 'api-key=sk_secret',
    OTEL_TRACES_SAMPLER: 'always_on',
    OTEL_TRACES_SAMPLER_ARG: '0.5',
  })
  for (const part of ['OTEL_TRACES_SAMPLER_ARG is set and has no effect', 'gRPC', 'is not encrypted'])
    expect(warnings.filter((warning) => warning.includes(part))).toHaveLength(1)
  expect(warnings.join()).not.toContain('sk_secret')
})
