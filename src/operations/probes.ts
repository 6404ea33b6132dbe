import type { RequestListener, ServerResponse } from 'node:http'

export interface Page {
  status: number
  type: string
  body: string | Buffer
}

export type Probe = () => Page | Promise<Page>

export async function answerProbe(probe: Probe, response: ServerResponse): Promise<void> {
  const { status, type, body } = await Promise.resolve()
    .then(probe)
    .catch(() => failure)
  const length = Buffer.byteLength(body)
  response.writeHead(status, { 'Content-Type': type, 'Content-Length': length, 'Cache-Control': 'no-store' })
  response.end(body)
}

export const healthy = json(200, { status: 'ok' })

export function readiness({ ready, storeUp }: { ready: boolean; storeUp: boolean }): Page {
  return json(ready ? 200 : 503, { status: ready ? 'ready' : 'not ready', degraded: !storeUp })
}

export const failure = json(500, { error: 'The operations listener failed.' })

export function json(status: number, content: unknown): Page {
  return { status, type: 'application/json; charset=utf-8', body: JSON.stringify(content) }
}

const starting = json(503, { error: 'This gateway starts, and has no answer yet but /healthz and /readyz.' })
const answers = new Map([
  ['/healthz', healthy],
  ['/readyz', readiness({ ready: false, storeUp: true })],
])

/** What the operations listener answers while the gateway is built: it lives, and is not ready. */
export const answerStarting: RequestListener = (request, response) => {
  const { method = '', url = '' } = request
  const [path = ''] = url.split('?')
  const isRead = method === 'GET' || method === 'HEAD'
  void answerProbe(() => (isRead ? answers.get(path) : undefined) ?? starting, response)
}
