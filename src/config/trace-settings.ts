import { z } from 'zod'
import { facts } from './setting-facts.ts'
import { oneOf, readBaseUrl } from './value-schemas.ts'

const samplers = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const

const collectorUrl = z.string().transform((text, context) => {
  const form = 'an http or https URL such as http://localhost:4318'
  const result = readBaseUrl(text)
  if ('expected' in result)
    context.addIssue(
      `${form}, without user, password (OTEL_EXPORTER_OTLP_HEADERS is for keys), query and fragment`,
    )
  else if (result.url.endsWith('/v1/traces')) context.addIssue(`${form}: /v1/traces is appended`)
  else return result.url
  return z.NEVER
})

const ratio = z
  .string()
  .regex(/^(?:0|1|0?\.\d{1,15}|1\.0{1,15})$/, 'a number from 0 to 1, such as 0.01')
  .transform(Number)

/** The OTEL_ variables that we read. OpenTelemetry reads the others from the environment itself. */
export const traceSettings = {
  OTEL_EXPORTER_OTLP_ENDPOINT: collectorUrl.optional().register(facts, {
    secret: 'in-url',
    meaning:
      'The collector that receives spans, an http or https URL such as http://localhost:4318; /v1/traces is ' +
      'appended. Without it nothing is traced. Names of OpenTelemetry that are not listed here, such as ' +
      'OTEL_SERVICE_NAME and OTEL_EXPORTER_OTLP_HEADERS, are read by OpenTelemetry itself.',
  }),
  OTEL_EXPORTER_OTLP_PROTOCOL: oneOf(['http/protobuf', 'http/json'])
    .prefault('http/protobuf')
    .register(facts, {
      meaning: 'How spans are written: http/protobuf or http/json.',
    }),
  OTEL_TRACES_SAMPLER: oneOf(samplers)
    .prefault('parentbased_traceidratio')
    .register(facts, {
      meaning:
        `Which requests are traced: ${samplers.join(', ')}. With parentbased_ the sampled flag of a trusted proxy ` +
        '(TRUST_PROXY) decides; of any other client only the trace id is taken.',
    }),
  OTEL_TRACES_SAMPLER_ARG: ratio.prefault('0.01').register(facts, {
    meaning: 'The share of traces that the traceidratio samplers record, from 0 to 1.',
  }),
}
