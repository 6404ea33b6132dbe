import { EventEmitter } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createPartition, type Partition } from '../../../src/client/partition.ts'
import type { Clock } from '../../../src/clock.ts'
import { Events, type Listener } from '../../../src/events.ts'
import { readAmount } from '../../../src/http/area.ts'
import { UpstreamFailure } from '../../../src/http/failure.ts'
import { QuoteCache } from '../../../src/quotes/cache.ts'
import type { QuoteNotes, SharedQuotes } from '../../../src/quotes/ports.ts'
import { unheld } from '../../../src/quotes/price-kinds.ts'
import { ProviderLimit } from '../../../src/quotes/provider-limit.ts'
import { QuoteRoute } from '../../../src/quotes/route.ts'
import { Exchange } from '../../../src/server/exchange.ts'
import type { Call } from '../../../src/upstream/call.ts'
import type { Receiver, UpstreamRequest } from '../../../src/upstream/request.ts'

/** What the provider is sent, and is to answer. Nothing but the test ends it, and the route, which gives it up. */
export class StagedCall {
  /** The id of the exchange that caused it. */
  readonly by: string
  isGivenUp = false
  readonly target: string
  readonly #receiver: Receiver

  constructor({ headers, target }: UpstreamRequest, receiver: Receiver) {
    this.by = headers[headers.indexOf('X-Request-Id') + 1] ?? ''
    this.target = target
    this.#receiver = receiver
  }

  start(): void {
    this.#receiver.onSent?.()
  }

  /** `meanwhile`: what happens between its head and its body. */
  answer(
    body: string | Buffer,
    { status = 200, headers = [] as string[], meanwhile = (): void => {} } = {},
  ): void {
    this.#receiver.onHead(status, headers, 'OK')
    meanwhile()
    this.#receiver.onData(Buffer.from(body))
    this.#receiver.onEnd()
  }

  fail(error: Error): void {
    this.#receiver.onEnd(error)
  }

  /** Of the route: no request waits any more. */
  leave(): void {
    this.isGivenUp = true
    this.fail(new Error('given up'))
  }

  /** Of its deadline, which the tests have none of. */
  giveUp(): void {}

  failure(): UpstreamFailure {
    return new UpstreamFailure('swap', {
      fault: 'http_response_timeout',
      maybeSeen: true,
    })
  }
}

export interface StagedClient {
  address?: string | undefined
  peerTrusted?: boolean
  pair?: string
  amount?: string
  headers?: readonly string[]
}

export interface StagedAnswer {
  how: string | undefined
  body: string
  /** By the clock of the stage. */
  atMs: number
}

export interface StagedAsk {
  readonly answer: Promise<StagedAnswer>
  leave(): void
}

export interface StageOptions {
  clock: Clock
  /** Default: all users share. */
  partitionOf?: Partition
  quotes?: {
    cacheEntries?: number
    minValidityMs?: number | undefined
    refreshAheadMs?: number
  }
  totalTimeoutMs?: number
  sharedQuotes?: SharedQuotes | undefined
  notes?: Partial<QuoteNotes>
  listener?: Listener
  /** For many stages whose provider answers no 429: each of its own takes the memory of a thousand callers. */
  providerLimit?: ProviderLimit
  /** Each call of the provider. Default: they are collected. */
  onCall?(call: StagedCall): void
}

const unheard = new Events()

/** The real quote route, between callers and a provider that the test plays. */
export class QuoteStage {
  readonly calls: StagedCall[] = []
  readonly cache: QuoteCache
  readonly #options: StageOptions
  readonly #route: QuoteRoute
  #asked = 0

  constructor(options: StageOptions) {
    this.#options = options
    const {
      clock,
      listener,
      totalTimeoutMs = 600_000,
      onCall,
      partitionOf,
      sharedQuotes,
    } = options
    const events = listener === undefined ? unheard : new Events([listener])
    const quotes = {
      keyHeaders: ['app-name'],
      partition: { mode: 'none', placeHeaders: [] },
      obeyCacheControl: false,
      cacheEntries: 100,
      cacheBytes: 67_108_864,
      maxBytes: 16_384,
      minValidityMs: 0,
      refreshAheadMs: 0,
      ...options.quotes,
    }
    const parts = {
      config: { quotes, client: { ipHeader: 'forwarded' }, upstream: { totalTimeoutMs } },
      clock,
      events,
      clockDifference: { note() {} },
    }
    this.cache = new QuoteCache(parts)
    this.#route = new QuoteRoute({
      ...parts,
      users: { identify: () => noClient },
      partitionOf: partitionOf ?? createPartition({ mode: 'none', placeHeaders: [] }),
      supplied: new Map(),
      // Stages that share a store have the same keys.
      sharedStore: { salt: '' },
      upstream: {
        name: 'swap',
        call: (request, receiver) => {
          const call = new StagedCall(request, receiver)
          this.calls.push(call)
          onCall?.(call)
          return call as unknown as Call
        },
      },
      cache: this.cache,
      holds: unheld,
      notes: {
        note() {},
        async noteUnreadable() {},
        noteFound() {},
        wasUsed: () => false,
        ...options.notes,
      },
      providerLimit: options.providerLimit ?? new ProviderLimit(parts),
      rateLimit: undefined,
      sharedQuotes,
    })
  }

  /** The ids of exchanges are `0`, `1`, … in the order in which they ask. */
  ask(client: StagedClient = {}): StagedAsk {
    const {
      address,
      peerTrusted = false,
      pair = 'ETH_USDC',
      amount = '1',
      headers = ['App-Name', 'a'],
    } = client
    const path = `/v3/pairs/${pair}/quotes`
    const target = `${path}?amount=${amount}`
    const rawHeaders = [...headers, 'X-Request-Id', String(this.#asked)]
    this.#asked += 1
    const request = { rawHeaders, socket: {}, url: target, method: 'GET' }
    const response = new StagedResponse()
    const exchange = new Exchange(
      request as unknown as IncomingMessage,
      response as unknown as ServerResponse,
      {
        readTarget: () => ({
          target,
          path,
          area: 'quote',
          upstream: 'swap',
          quote: { pair, ...readAmount(`amount=${amount}`) },
          rates: undefined,
          route: undefined,
        }),
        tracing: undefined,
      },
    )
    exchange.identify({ identify: () => ({ address, peer: address, peerTrusted }) })
    const answer = new Promise<StagedAnswer>((resolve, reject) => {
      response.written = (body) =>
        resolve({ how: exchange.outcome?.how, body, atMs: this.#options.clock.nowMs() })
      try {
        this.#route.answer(exchange)?.catch(reject)
      } catch (error) {
        reject(error)
      }
    })
    return { answer, leave: () => response.leave() }
  }
}

const noClient = { address: undefined, peer: undefined, peerTrusted: false }

/** As much of a response as the route needs. */
class StagedResponse extends EventEmitter {
  readonly socket = {}
  destroyed = false
  writableFinished = false
  sendDate = true
  written: (body: string) => void = () => {}

  writeHead(): void {}

  end(body: string | Buffer): void {
    this.writableFinished = true
    this.written(body.toString('latin1'))
    this.emit('close')
  }

  leave(): void {
    if (this.destroyed || this.writableFinished) return
    this.destroyed = true
    this.emit('close')
  }
}
