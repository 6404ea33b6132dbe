import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import express, { type ErrorRequestHandler, type Express, Router } from 'express'
import { z } from 'zod'
import { type GatewayClock as Clock, systemClock } from '../clock.ts'
import { isPlainObject } from '../process/arguments.ts'
import { addAnswers, answerError, Refusal } from './answer.ts'
import { FaultSettings, injectFaults } from './faults.ts'
import { Payments } from './payments.ts'
import { bodyAsJsonObject, readBody, recordRequests } from './requests.ts'
import { createSwapRouter } from './swap.ts'
import {
  type RecordedRequest,
  SandboxError,
  type SandboxFaults,
  type SandboxOptions,
} from './types.ts'
import { sendWebhook, type WebhookEvent } from './webhooks.ts'

// biome-ignore lint/performance/noBarrelFile: this is the entry quotegate/sandbox.
export { SandboxError } from './types.ts'
export type { Clock, RecordedRequest, SandboxFaults, SandboxOptions, WebhookEvent }

export interface Sandbox {
  /** The URL of both APIs: the SWAP_BASE_URL and PAYMENTS_BASE_URL of a gateway. */
  readonly url: string
  /**
   * Requests to both APIs (not to `/sandbox`), newest last. The oldest are dropped, and the caller may empty the list.
   */
  readonly requests: RecordedRequest[]
  /** Merges `next` into the current faults and returns them. Throws for a bad value. */
  faults(next?: Partial<SandboxFaults>): SandboxFaults
  /** Sends a signed event until a 2xx, at most five times. Status 0: no answer came. */
  sendWebhook(event: WebhookEvent): Promise<{ id: string; statuses: number[] }>
  /** Ends every connection at once. */
  close(): Promise<void>
  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** Starts both upstreams on one real port. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  checkOptions(options)
  const { host = '127.0.0.1', port = 0, clock: elapsedClock = systemClock } = options
  const {
    quoteLifetimeMs,
    random = Math.random,
    recordRequests: recordLimit = 1000,
  } = options
  const faults = new FaultSettings()
  faults.merge({ quoteLifetimeMs, ...options.faults })
  const clock: Clock = {
    nowMs: () => elapsedClock.nowMs() + faults.current.clockOffsetMs,
  }
  const requests: RecordedRequest[] = []
  const sources = { clock, elapsedClock, faults }
  const payments = new Payments(sources)

  const app = express()
  app.disable('x-powered-by')
  app.use('/sandbox', controls(faults, payments))
  app.use(recordRequests(requests, recordLimit, elapsedClock))
  app.use(injectFaults(faults, random))
  app.use((_request, response, next) => {
    // Set again after a slow body or a latency: servers date an answer when they write it.
    response.setHeader('Date', dateHeader(clock))
    next()
  })
  app.use('/v3', createSwapRouter(options.prices ?? {}, sources))
  app.use(payments.router)
  app.use(() => {
    throw new Refusal(404, 'NOT_FOUND', 'the sandbox has nothing at this path')
  })
  app.use(((error, request, response, _next) => {
    answerError(response, error, request.path)
  }) satisfies ErrorRequestHandler)

  const server = createSandboxServer(app, clock)
  if (options.unref === true) {
    server.unref()
    server.on('connection', (socket) => socket.unref())
  }
  await once(server.listen(port, host), 'listening')
  const closed = new Promise<void>((resolve) => server.once('close', resolve))
  function close(): Promise<void> {
    server.close()
    server.closeAllConnections()
    return closed
  }
  return {
    url: urlOf(server),
    requests,
    faults: (next = {}) => faults.merge(next),
    sendWebhook: (event) => sendWebhook(event, clock),
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Controls for tests, demos and the console. The real upstreams have no such paths. */
function controls(faults: FaultSettings, payments: Payments): Router {
  const router = Router()
  router.use(async (request, _response, next) => {
    if (await readBody(request)) next()
  })
  addAnswers(router, 200, {
    'get /faults': () => faults.current,
    'put /faults': (_id, request) => faults.merge(bodyAsJsonObject(request)),
    'post /checkouts/:id/complete': (id) => payments.completeCheckout(id),
  })
  return router
}

function createSandboxServer(app: Express, clock: Clock): Server {
  // Express calls the third argument, which its types lack, if it cannot parse the target.
  const handle: (
    ...given: [...Parameters<RequestListener>, (error?: unknown) => void]
  ) => void = app
  // Node's own answer to a request without Host would lack the Sandbox header.
  const server = createServer({ requireHostHeader: false }, (request, response) => {
    response.sendDate = false
    response.setHeader('Sandbox', 'quotegate')
    response.setHeader('Date', dateHeader(clock))
    const unreadable = new Refusal(400, 'BAD_TARGET', 'the target cannot be read')
    handle(request, response, (error = unreadable) =>
      answerError(response, error, request.url ?? ''),
    )
  })
  server.on('checkExpectation', (request, response) =>
    server.emit('request', request, response),
  )
  server.on('clientError', (error, socket) => refuseUnreadable(error, socket, clock))
  return server
}

function refuseUnreadable(
  error: NodeJS.ErrnoException,
  socket: Duplex,
  clock: Clock,
): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const status =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? '431 Request Header Fields Too Large'
      : '400 Bad Request'
  const body = JSON.stringify({
    code: 'BAD_REQUEST',
    message: 'the request is not readable HTTP',
  })
  const head = [
    `HTTP/1.1 ${status}`,
    'Sandbox: quotegate',
    `Date: ${dateHeader(clock)}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${body.length}`,
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

function dateHeader(clock: Clock): string {
  return new Date(clock.nowMs()).toUTCString()
}

function urlOf(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}

const object = z.custom(isPlainObject)
const method = z.custom((value) => typeof value === 'function')

const optionTable: Record<keyof SandboxOptions, [z.ZodType, string]> = {
  host: [z.string(), 'an address such as 127.0.0.1'],
  port: [z.int().min(0).max(65_535), 'a whole number from 0 to 65535'],
  clock: [z.looseObject({ nowMs: method }), 'an object with nowMs()'],
  quoteLifetimeMs: [z.number(), 'a number'],
  faults: [object, 'an object such as { latencyMs: 100 }'],
  prices: [object, 'an object such as { ETH_USDC: 2900 }'],
  random: [method, 'a function'],
  // A negative limit would empty the array endlessly; with NaN it would only grow.
  recordRequests: [z.number().min(0), 'a number of 0 or more'],
  unref: [z.boolean(), 'true or false'],
}

/** Throws a SandboxError with the wrong option and what it must be. */
function checkOptions(options: SandboxOptions): void {
  if (!isPlainObject(options))
    throw new SandboxError(
      'startSandbox: options must be an object such as { quoteLifetimeMs: 50 }',
    )
  const names = Object.keys(optionTable)
  for (const [name, value] of Object.entries(options)) {
    if (!names.includes(name))
      throw new SandboxError(
        `startSandbox: unknown option ${name}: the options are ${names.join(', ')}`,
      )
    const [schema, expected] = optionTable[name as keyof SandboxOptions]
    if (value !== undefined && !schema.safeParse(value).success)
      throw new SandboxError(`startSandbox: ${name} must be ${expected}`)
  }
}
