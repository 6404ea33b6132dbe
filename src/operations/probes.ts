import type { IncomingMessage, ServerResponse } from 'node:http'

export interface Page {
  status: number
  type: string
  body: string
}

export type Probe = () => Page | Promise<Page>

/**
 * Answers what machines ask for every few seconds, by its plain path, without Express. Not for its time: Express gives
 * requests a shape of its own, and of Node's functions, which serve quotes too, V8 keeps only a few shapes apart.
 */
export function answersProbe(
  probes: ReadonlyMap<string, Probe>,
  request: IncomingMessage,
  response: ServerResponse,
): boolean {
  const { method, url = '' } = request
  if (method !== 'GET' && method !== 'HEAD') return false
  const queryAt = url.indexOf('?')
  const probe = probes.get(queryAt === -1 ? url : url.slice(0, queryAt))
  if (probe === undefined) return false
  void answerProbe(probe, response)
  return true
}

export async function answerProbe(probe: Probe, response: ServerResponse): Promise<void> {
  const { status, type, body } = await Promise.resolve()
    .then(probe)
    .catch(() => failure)
  const length = Buffer.byteLength(body)
  response.writeHead(status, { 'Content-Type': type, 'Content-Length': length, 'Cache-Control': 'no-store' })
  response.end(body)
}

export const failure = json(500, { error: 'The operations listener failed.' })

export function json(status: number, content: unknown): Page {
  return { status, type: 'application/json; charset=utf-8', body: JSON.stringify(content) }
}
