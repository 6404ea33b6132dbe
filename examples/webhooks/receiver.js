import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

const maxBytes = 1024 * 1024
const maxTaken = 10_000

/**
 * A receiver of webhooks behind the gateway. `take` does the work of one event; if it fails, the event is sent again.
 * `oldSecret`: the secret before, while it is changed.
 */
export function createReceiver({ secret, oldSecret, take }) {
  // In a real receiver this is a table whose key is the event's id, written in the transaction that does the work.
  const taken = new Map()
  const done = []

  async function statusFor(request) {
    const bytes = await readBytes(request)
    if (bytes === undefined) return 413
    // Over the bytes as they came: JSON that was parsed and written again is other bytes.
    if (!isFromProvider(bytes, request.headers)) return 401
    const event = readJson(bytes)
    if (typeof event?.id !== 'string' || event.id === '') return 400
    if ((request.headers['x-webhook-id'] ?? event.id) !== event.id) return 400
    // A test event must not move money. Live events have no livemode.
    if (event.livemode === false) return 204
    // Nothing is awaited between `has` and `set`, so that of two deliveries at once the second waits for the first.
    if (!taken.has(event.id)) {
      const work = Promise.resolve(event).then(take)
      taken.set(event.id, work)
      work.then(
        () => done.push(event.id),
        () => taken.delete(event.id),
      )
      // Only what is done is forgotten: an event whose work is on its way would be taken twice.
      while (taken.size > maxTaken && done.length > 0) taken.delete(done.shift())
    }
    await taken.get(event.id)
    return 204
  }

  /** While the secret is changed, either side may have the new one first. */
  function isFromProvider(bytes, { 'x-signature': now, 'x-signature-previous': before }) {
    return (
      isSigned(bytes, now, secret) ||
      isSigned(bytes, before, secret) ||
      (oldSecret !== undefined && isSigned(bytes, now, oldSecret))
    )
  }

  return createServer((request, response) => {
    const answer = (status) => response.writeHead(status).end()
    statusFor(request).then(answer, () => answer(500))
  })
}

async function readBytes(request) {
  const chunks = []
  let length = 0
  for await (const chunk of request) {
    length += chunk.length
    if (length <= maxBytes) chunks.push(chunk)
  }
  return length <= maxBytes ? Buffer.concat(chunks) : undefined
}

function readJson(bytes) {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return undefined
  }
}

function isSigned(bytes, signature = '', secret) {
  const expected = Buffer.from(createHmac('sha256', secret).update(bytes).digest('hex'))
  const given = Buffer.from(signature)
  return given.length === expected.length && timingSafeEqual(given, expected)
}
