import { hash, randomBytes } from 'node:crypto'
import type { Cluster, Redis } from 'ioredis'

/** Resolves with Buffers, because stored quotes are bytes. */
type Script<Answer> = (
  client: Redis | Cluster,
  key: string,
  parameters: readonly (string | Buffer | number)[],
) => Promise<Answer>

/** Unique to this process, because a proxy may mix up the replies to several replicas. */
const processId = randomBytes(6).toString('base64url')
let callsMade = 0

/** The reply is not to our command. */
export class StrayReply extends Error {
  constructor() {
    super('its answer is not that of our script')
    this.name = 'StrayReply'
  }
}

/**
 * Commands on one key that run atomically. The text is sent to each server once, and later its digest. Replies echo a
 * call id: after a lost or doubled reply, another call's reply would look valid, and may hold another pair's quote.
 * Such a reply counts as a failure of the store. Without `isAnswer` any reply will do.
 */
export function createScript<Answer = unknown>(
  text: string,
  isAnswer?: (answer: unknown) => boolean,
): Script<Answer> {
  // With the `#!lua` line, a server that takes no writes refuses every script, even one that only reads.
  const echoing = `#!lua\nlocal function run()\n${text}\nend\nreturn {ARGV[#ARGV], run()}`
  const digest = hash('sha1', echoing)

  async function run(
    ...[client, key, parameters]: Parameters<Script<Answer>>
  ): Promise<unknown> {
    try {
      return await client.callBuffer('evalsha', digest, 1, key, ...parameters)
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
      return client.callBuffer('eval', echoing, 1, key, ...parameters)
    }
  }

  return async (client, key, parameters) => {
    callsMade += 1
    const callId = `${processId}${callsMade}`
    const reply = await run(client, key, [...parameters, callId])
    const [echoedId, answer = null] = Array.isArray(reply) ? reply : [undefined, reply]
    const isOurs =
      isAnswer === undefined || (String(echoedId) === callId && isAnswer(answer))
    if (!isOurs) throw new StrayReply()
    return answer as Answer
  }
}
