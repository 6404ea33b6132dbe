import { hash } from 'node:crypto'
import type { Cluster, Redis } from 'ioredis'

/** Answers in bytes, since what is kept are bytes. */
export type Script = (
  client: Redis | Cluster,
  key: string,
  parameters: readonly (string | Buffer | number)[],
) => Promise<unknown>

/** Commands on one key that happen together or not at all. The text goes to each server once; then its digest does. */
export function createScript(text: string): Script {
  const digest = hash('sha1', text)
  return async (client, key, parameters) => {
    try {
      return await client.callBuffer('evalsha', digest, 1, key, ...parameters)
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
      return client.callBuffer('eval', text, 1, key, ...parameters)
    }
  }
}
