import { facts } from '../setting-facts.ts'
import { collectorUrl, headerList, pairList, ratio } from '../trace-schemas.ts'
import { anyText, milliseconds, oneOf } from '../value-schemas.ts'

const samplers = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const

export const traceSettings = {
  OTEL_EXPORTER_OTLP_ENDPOINT: collectorUrl.optional().register(facts, {
    secret: 'in-url',
    meaning:
      'The collector that receives spans, an http or https URL such as http://localhost:4318; /v1/traces is ' +
      'appended. Without it nothing is traced.',
  }),
  OTEL_EXPORTER_OTLP_HEADERS: headerList.optional().register(facts, {
    secret: 'whole',
    meaning: 'Headers sent to the collector, such as api-key=…; separated by commas, values percent-encoded.',
  }),
  OTEL_EXPORTER_OTLP_PROTOCOL: oneOf(['http/protobuf', 'http/json'])
    .prefault('http/protobuf')
    .register(facts, {
      meaning: 'How spans are written: http/protobuf or http/json.',
    }),
  OTEL_SERVICE_NAME: anyText.optional().register(facts, {
    defaultText: 'service.name of OTEL_RESOURCE_ATTRIBUTES, else quotegate',
    meaning: 'The name of this service in traces.',
  }),
  OTEL_RESOURCE_ATTRIBUTES: pairList.optional().register(facts, {
    meaning:
      'Attributes of this process in every span, such as deployment.environment.name=production; separated by commas, ' +
      'values percent-encoded.',
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
  OTEL_BSP_SCHEDULE_DELAY: milliseconds().prefault('5000').register(facts, {
    meaning:
      'Longest time in milliseconds that a span waits before it is sent. At most 2048 spans wait; more are dropped.',
  }),
}
