import { hash } from 'node:crypto'
import type { Cluster, Redis } from 'ioredis'

/** Answers in bytes, since what is kept are bytes. */
export type Script<Answer> = (
  client: Redis | Cluster,
  key: string,
  parameters: readonly (string | Buffer | number)[],
) => Promise<Answer>

/**
 * Commands on one key that happen together or not at all. The text goes to each server once; then its digest does.
 * What is no answer of theirs, such as that to another command, is a failure of the store and of no request.
 */
export function createScript<Answer = unknown>(
  text: string,
  isAnswer: (answer: unknown) => boolean = () => true,
): Script<Answer> {
  const digest = hash('sha1', text)

  async function run(...[client, key, parameters]: Parameters<Script<Answer>>): Promise<unknown> {
    try {
      return await client.callBuffer('evalsha', digest, 1, key, ...parameters)
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
      return client.callBuffer('eval', text, 1, key, ...parameters)
    }
  }

  return async (...asked) => {
    const answer = await run(...asked)
    if (!isAnswer(answer)) throw new Error('its answer is not that of our script')
    return answer as Answer
  }
}
