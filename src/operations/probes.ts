import type { RequestListener, ServerResponse } from 'node:http'
import type { OperationsParts } from './parts.ts'
import { troubles } from './trouble-table.ts'

export const healthy = { status: 'ok' }

/** This replica works on its own: the store is down, or its journal not used. */
export const isDegraded = ({
  sharedStore,
  journals,
}: Pick<OperationsParts, 'sharedStore' | 'journals'>) =>
  troubles.store.when(
    sharedStore?.up ?? true,
    journals.stream?.facts.awaySinceMs === undefined,
  )

export const readiness = (isReady: boolean, degraded: boolean) => ({
  status: isReady ? 'ready' : 'not ready',
  degraded,
})

/** While the gateway is being built, it lives and is not ready. */
export const answerStarting: RequestListener = ({ method = '', url = '' }, response) => {
  const path = ['GET', 'HEAD'].includes(method) ? url.split('?')[0] : undefined
  if (path === '/healthz') answerJson(response, 200, healthy)
  else if (path === '/readyz') answerJson(response, 503, readiness(false, false))
  else
    answerJson(response, 503, {
      error: 'This gateway starts: only /healthz and /readyz answer.',
    })
}

/** For answers without Express. */
export function answerJson(
  response: ServerResponse,
  status: number,
  content: object,
): void {
  const body = JSON.stringify(content)
  response.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': 'no-store',
  })
  response.end(body)
}
