import type { Socket } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect } from 'vitest'
import { pause } from '../gateways/between.ts'
import { type RunningGateway, startGateway } from '../gateways/gateway.ts'
import {
  type RecordingUpstream,
  startRecordingUpstream,
} from '../upstreams/recording-upstream.ts'
import { parseAnswer, RawConnection } from './raw-connection.ts'

export interface Answer {
  status: number
  headers: Map<string, string[]>
  body: string
}

export interface Outcome {
  /** Every final answer that came, in order. Reading them fails on bytes that are not an HTTP response. */
  answers: Answer[]
  informational: number[]
  /** What came after the last whole answer. */
  rest: string
  error: Error | undefined
}

const headForm =
  /^HTTP\/1\.1 ([1-5]\d\d) [\t\x20-\x7e\x80-\xff]*\r\n((?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+: ?[\t\x20-\x7e\x80-\xff]*\r\n)*)\r\n/

/** Reads a stream of responses strictly; `methods` says, if that is known, which of them answer a HEAD. */
export function readAnswers(
  text: string,
  methods: readonly string[] | 'unknown' = [],
): Omit<Outcome, 'error'> {
  const answers: Answer[] = []
  const informational: number[] = []
  let rest = text
  for (;;) {
    const head = headForm.exec(rest)
    if (!head && rest.includes('\r\n\r\n'))
      throw new Error(`not an HTTP response: ${JSON.stringify(rest.slice(0, 200))}`)
    const after = rest.slice(head?.[0].length)
    if (head && Number(head[1]) < 200) {
      informational.push(Number(head[1]))
      rest = after
      continue
    }
    const toHead =
      methods === 'unknown'
        ? after === '' || after.startsWith('HTTP/1.1 ')
        : methods[answers.length] === 'HEAD'
    const parsed = parseAnswer(Buffer.from(rest, 'latin1'), { toHead, ended: false })
    if (parsed === undefined) return { answers, informational, rest }
    const { status, rawHeaders, body, framing } = parsed.answer
    const headers = new Map<string, string[]>()
    for (const [index, name] of rawHeaders.entries()) {
      const key = name.toLowerCase()
      if (index % 2 === 0)
        headers.set(key, [...(headers.get(key) ?? []), rawHeaders[index + 1] ?? ''])
    }
    const lengths = headers.get('content-length') ?? []
    if (framing !== 'none' && lengths.length !== (framing === 'length' ? 1 : 0))
      throw new Error('an answer with no length, or several')
    answers.push({ status, headers, body: body.toString('latin1') })
    rest = rest.slice(parsed.length)
  }
}

/** A string is sent as latin1, a number waits that many milliseconds, a function does as it likes. */
export type Step = string | Buffer | number | ((socket: Socket) => unknown)

/** Sends bytes as they are and gathers what comes back until the gateway closes the connection. */
export async function attack(
  url: string,
  steps: Step | readonly Step[],
  options: { methods?: readonly string[] } = {},
): Promise<Outcome> {
  const client = new RawConnection(url, '', { endsWithTest: false })
  for (const step of Array.isArray(steps) ? steps : [steps]) {
    if (client.ended) break
    if (typeof step === 'number') await Promise.race([client.closed(), pause(step)])
    else if (typeof step === 'function') await step(client.socket)
    else client.write(step)
  }
  await client.closed()
  client.socket.destroy()
  return {
    ...readAnswers(client.received.toString('latin1'), options.methods),
    error: client.error,
  }
}

/** Every byte the clients mean to smuggle asks for a path with this name. */
export const smuggled = 'GET /checkouts/smuggled HTTP/1.1\r\nHost: gateway\r\n\r\n'

/**
 * A gateway for all tests of a file, whose only upstream remembers what it was given and answers with the target that it
 * saw. What it received is forgotten before each of them, unless they run `atOnce`.
 */
export function attackedGateway(
  settings: Record<string, string | number> = {},
  { atOnce = false } = {},
) {
  let upstream: RecordingUpstream
  let gateway: RunningGateway
  beforeAll(async () => {
    upstream = await startRecordingUpstream((request, response) => {
      const delayMs = Number(/delay=(\d+)/.exec(request.target)?.[1] ?? 0)
      setTimeout(() => response.end(request.target), delayMs)
    })
    const urls = { SWAP_BASE_URL: upstream.url, PAYMENTS_BASE_URL: upstream.url }
    gateway = await startGateway({ ...urls, ...settings })
  })
  afterAll(async () => {
    await gateway.close()
    await upstream.close()
  })
  if (!atOnce)
    beforeEach(() => {
      upstream.requests.length = 0
    })
  return {
    get url() {
      return gateway.url
    },
    get received() {
      return upstream.requests
    },
  }
}

/** One answer, a whole problem, and after it a closed connection on which nothing more was served. */
export function expectRefusal(outcome: Outcome, status: number, slug: string): void {
  expect(outcome.answers.map((answer) => answer.status)).toEqual([status])
  const [answer] = outcome.answers
  expectProblem(answer, status, slug)
  expect(answer?.headers.get('connection')).toEqual(['close'])
  expect(outcome.rest).toBe('')
  expect(outcome.error).toBeUndefined()
}

export function expectProblem(
  answer: Answer | undefined,
  status: number,
  slug: string,
): void {
  expect(answer?.status).toBe(status)
  expect(answer?.headers.get('content-type')).toEqual(['application/problem+json'])
  const body: unknown = JSON.parse(answer?.body ?? '')
  expect(body).toMatchObject({ type: `urn:quotegate:problem:${slug}`, status })
  expect(body).toHaveProperty('requestId', answer?.headers.get('x-request-id')?.[0])
  expect(body).toHaveProperty('retryable', expect.any(Boolean))
}
