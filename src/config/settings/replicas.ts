import { facts } from '../setting-facts.ts'
import { filePath, keyPrefix, storeUrl, wholeNumber } from '../value-schemas.ts'

export const replicaSettings = {
  VALKEY_URL: storeUrl.optional().register(facts, {
    secret: 'in-url',
    meaning:
      'The Valkey, or Redis 7 or later, through which replicas share quotes, the journal and rate limits. Without it, each ' +
      'replica has its own cache, so set it as soon as there are two. ' +
      'redis://[[user]:password@]host[:port][/database], rediss:// with TLS, ' +
      'redis+sentinel://host:port,host:port/master-name, redis+cluster://host:port,host:port; with TLS ' +
      'rediss+sentinel and rediss+cluster; each may also be written with valkey for redis. The password of the ' +
      'Sentinels: ?sentinelPassword=. While the store is down, each replica works on its own.',
  }),
  VALKEY_URL_FILE: filePath.optional().register(facts, {
    secret: 'unless-path',
    meaning:
      'A file that holds VALKEY_URL, in place of VALKEY_URL. It is read at startup; its last newline is cut.',
  }),
  VALKEY_KEY_PREFIX: keyPrefix.prefault('quotegate:').register(facts, {
    meaning:
      'Prefix of every key in the store. Replicas with the same prefix are one gateway: give ' +
      'another stage, or other upstreams, another prefix.',
  }),
  VALKEY_TIMEOUT_MS: wholeNumber(1, 10_000, ' of milliseconds')
    .prefault('50')
    .register(facts, {
      meaning:
        'Timeout of one call to the store. While the oldest call has had no answer for so long, requests go on without ' +
        'the store.',
    }),
}
