import type { RequestListener } from 'node:http'
import { answerProbe, healthy, json, readiness } from './probes.ts'

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
