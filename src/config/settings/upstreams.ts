import { facts } from '../setting-facts.ts'
import { anyText, baseUrl, baseUrlOrSandbox, headerValue, pathPrefixes } from '../value-schemas.ts'

export const upstreamSettings = {
  NODE_ENV: anyText
    .toLowerCase()
    .optional()
    .register(facts, {
      meaning:
        'production makes SWAP_BASE_URL required and refuses the sandbox, so that the sandbox never serves real ' +
        'users by accident. Any other value changes nothing.',
    }),
  SWAP_BASE_URL: baseUrlOrSandbox.prefault('sandbox').register(facts, {
    secret: 'in-url',
    defaultText: 'sandbox; none in production, where it is required',
    meaning: 'The swap upstream, an http or https URL (a path prefix is kept), or the built-in sandbox.',
  }),
  SWAP_APP_NAME: headerValue.optional().register(facts, {
    meaning: 'App-Name sent to the swap upstream when the caller sent none.',
  }),
  SWAP_APP_VERSION: headerValue.optional().register(facts, {
    meaning: 'App-Version sent to the swap upstream when the caller sent none.',
  }),
  SWAP_AUTHORIZATION: headerValue.optional().register(facts, {
    secret: 'whole',
    meaning:
      'Authorization sent to the swap upstream when the caller sent none. Anyone who reaches the traffic port ' +
      'then uses this key: keep HOST on loopback, or the port behind something that checks callers.',
  }),
  PAYMENTS_BASE_URL: baseUrlOrSandbox.optional().register(facts, {
    secret: 'in-url',
    defaultText: 'sandbox if SWAP_BASE_URL is the sandbox, else none',
    meaning: 'The payments upstream. Without one, the payments paths answer 404 with the reason.',
  }),
  PAYMENTS_PATHS: pathPrefixes.prefault('/checkouts,/subscriptions,/refunds').register(facts, {
    meaning:
      'Path prefixes that go to the payments upstream, separated by commas; / sends everything that is not ' +
      '/v3 or /webhooks. Every other path answers 404, naming this setting.',
  }),
  WEBHOOKS_BASE_URL: baseUrl.optional().register(facts, {
    secret: 'in-url',
    meaning:
      'If set, /webhooks and everything below it goes there: any method, byte for byte, the whole target ' +
      'appended to this URL.',
  }),
}
