import { hash, randomBytes } from 'node:crypto'
import type { Cluster, Redis } from 'ioredis'

/** Answers in bytes, since what is kept are bytes. */
export type Script<Answer> = (
  client: Redis | Cluster,
  key: string,
  parameters: readonly (string | Buffer | number)[],
) => Promise<Answer>

/** A proxy may mix up the answers of several replicas too. */
const caller = randomBytes(6).toString('base64url')
let callsMade = 0

/**
 * Commands on one key that happen together or not at all. The text goes to each server once; then its digest does.
 * Each answer names the call that it is to: on a connection that has lost or doubled one, that to another call looks
 * just as good, and may hold the quote of another pair. Where it tells something, that is a failure of the store and
 * of no request.
 */
export function createScript<Answer = unknown>(
  text: string,
  isAnswer?: (answer: unknown) => boolean,
): Script<Answer> {
  const naming = `local function run()\n${text}\nend\nreturn {ARGV[#ARGV], run()}`
  const digest = hash('sha1', naming)

  async function run(...[client, key, parameters]: Parameters<Script<Answer>>): Promise<unknown> {
    try {
      return await client.callBuffer('evalsha', digest, 1, key, ...parameters)
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
      return client.callBuffer('eval', naming, 1, key, ...parameters)
    }
  }

  return async (client, key, parameters) => {
    callsMade += 1
    const call = `${caller}${callsMade}`
    const reply = await run(client, key, [...parameters, call])
    const [named, answer = null] = Array.isArray(reply) ? reply : [undefined, reply]
    // A step that only has to be done is done, whatever comes back.
    const isOurs = isAnswer === undefined || (String(named) === call && isAnswer(answer))
    if (!isOurs) throw new Error('its answer is not that of our script')
    return answer as Answer
  }
}
