import { createServer } from 'node:http'
import { onTestFinished } from 'vitest'
import { Events } from '../../../src/events.ts'
import { hasBody } from '../../../src/http/answer.ts'
import { ClientGone } from '../../../src/http/failure.ts'
import { problemBody, problemOf } from '../../../src/http/problem.ts'
import type { RequestKind } from '../../../src/upstream/breakers.ts'
import { relay } from '../../../src/upstream/relay.ts'
import { RequestBody } from '../../../src/upstream/request-body.ts'
import {
  Upstream,
  type UpstreamLimits,
  type UpstreamOptions,
} from '../../../src/upstream/upstream.ts'
import { listening } from '../machine/listening.ts'

export interface Edge {
  url: string
  upstream: Upstream
  /** How the requests ended, and each change of a breaker, in order. */
  outcomes: string[]
  states: string[]
  retries: number
}

const patient: UpstreamLimits = {
  connectTimeoutMs: 3_000,
  headersTimeoutMs: 10_000,
  bodyTimeoutMs: 10_000,
  connections: 4,
  queue: 1_000,
  waitMs: 10_000,
  floatOrderWaitMs: 10_000,
  retries: 1,
  breakerFailures: 1_000_000,
  breakerMinFailingMs: 0,
  breakerOpenMs: 5_000,
}

/** Edges have no routes, so that a path may say what kind of request it is: `/kind/float-order`, `/quote-of/A_B`. */
function kindOf(target: string): RequestKind {
  const [, pair] = /^\/quote-of\/([^?/]+)/.exec(target) ?? []
  if (pair !== undefined) return { quoteOf: pair }
  const [, kind] = /^\/kind\/(float-order|order)/.exec(target) ?? []
  return (kind as 'float-order' | 'order' | undefined) ?? 'other'
}

/** One upstream behind a real listener, for what a gateway keeps to itself: its lookup, its count of requests. */
export async function edgeTo(
  baseUrl: string,
  limits: Partial<UpstreamLimits> = {},
  options: Partial<Omit<UpstreamOptions, 'limits' | 'baseUrl'>> = {},
): Promise<Edge> {
  const edge = { outcomes: [] as string[], states: [] as string[], retries: 0 }
  const upstream = new Upstream({
    name: 'swap',
    baseUrl,
    limits: { ...patient, ...limits },
    events: new Events([
      {
        callRefused: (_upstream, _traffic, outcome) => void edge.outcomes.push(outcome),
        callEnded: (_call, outcome) => void edge.outcomes.push(outcome),
        callRetried() {
          edge.retries += 1
        },
        breakerChanged: (_upstream, { name, state }) =>
          void edge.states.push(`${name} ${state}`),
      },
    ]),
    ...options,
  })
  const server = createServer((request, response) => {
    relay({
      upstream,
      request,
      response,
      kind: kindOf(request.url ?? '/'),
      method: request.method ?? 'GET',
      target: request.url ?? '/',
      headers: [],
      body: hasBody(request) ? new RequestBody(request, { idleTimeoutMs: 30_000 }) : null,
    }).catch((error) => {
      if (error instanceof ClientGone) return
      if (response.headersSent) {
        response.destroy()
        return
      }
      const problem = problemOf(error, request.method ?? 'GET')
      request.resume()
      response.writeHead(problem.status, problem.headers)
      response.end(problemBody(problem, 'id'))
    })
  })
  onTestFinished(() => upstream.close())
  return Object.assign(edge, { url: (await listening(server)).url, upstream })
}
