import type { Users } from '../client/client-address.ts'
import type { ApplicationOf } from '../client/partition.ts'
import { type RateLimiter, windowSeconds } from '../client/rate-limiter.ts'
import type { Events } from '../events.ts'
import { headerValues } from '../http/headers.ts'
import { Problem, type ProblemOptions } from '../http/problem.ts'
import { briefText } from '../process/text.ts'
import type { Exchange } from './exchange.ts'

interface RateLimitOptions {
  limiter: RateLimiter
  users: Users
  by: 'app-name' | 'client-ip' | 'both'
  applicationOf: ApplicationOf
  events: Events
}

const whose = {
  'app-name': 'This application (App-Name)',
  'client-ip': "This user's address",
  both: "This application (App-Name) at this user's address",
} as const

class LimitReached extends Problem {
  readonly bucket: string

  constructor(bucket: string, options: ProblemOptions) {
    super('rate-limited', options)
    this.bucket = bucket
  }
}

/** Limits requests to the swap API, by application, address or both. Exists only if a limit is set. */
export class RateLimit {
  readonly #options: RateLimitOptions
  readonly #perMinute: number

  constructor(options: RateLimitOptions) {
    this.#options = options
    this.#perMinute = options.limiter.perMinute
  }

  /** Counts a request once, however often it is called. Rejects past the limit. */
  async count(exchange: Exchange): Promise<void> {
    if (exchange.rateLimit?.allowed) return
    const { by } = this.#options
    const bucket = this.#bucketOf(exchange)
    const { allowed, remaining, resetMs } = await this.#take(bucket)
    const name = isOrder(exchange) ? '"orders"' : '"default"'
    const policy = `${name};q=${this.#perMinute};w=${windowSeconds}`
    const limit = `${name};r=${remaining};t=${Math.ceil(resetMs / 1_000)}`
    exchange.rateLimit = {
      allowed,
      fields: ['RateLimit-Policy', policy, 'RateLimit', limit],
    }
    if (allowed) return
    this.#options.events.rateLimited(exchange.area)
    const seconds = Math.max(1, Math.ceil(resetMs / 1_000))
    throw new LimitReached(bucket, {
      detail:
        `${whose[by]} has reached its limit of ${this.#perMinute} a minute for ` +
        `${isOrder(exchange) ? 'orders' : 'requests'}. Nothing was sent to the provider. Retry after ${seconds} s.`,
      headers: { 'Retry-After': String(seconds) },
    })
  }

  /** If the limiter fails, that is our failure, and nothing was sent. */
  async #take(bucket: string): ReturnType<RateLimiter['take']> {
    try {
      return await this.#options.limiter.take(bucket)
    } catch (cause) {
      const detail =
        'The rate limiter failed, and nothing was sent. The log has the error under this request id.'
      throw new Problem('internal-error', { detail, retryable: true, cause })
    }
  }

  /** True if the limit of another application or address kept back a shared call: this request may still be sent. */
  isOthers(exchange: Exchange, error: unknown): boolean {
    return error instanceof LimitReached && error.bucket !== this.#bucketOf(exchange)
  }

  /** Orders have their own bucket, which quotes cannot use up. No header has a NUL. */
  #bucketOf(exchange: Exchange): string {
    const bucket = this.#generalBucketOf(exchange)
    return isOrder(exchange) ? `${bucket}\0orders` : bucket
  }

  #generalBucketOf(exchange: Exchange): string {
    const { applicationOf, by, users } = this.#options
    const address = exchange.identify(users).address ?? 'unknown'
    if (by === 'client-ip') return address
    const name = briefText(applicationOf(exchange.request.rawHeaders) ?? '')
    // No address has a space.
    return by === 'both' ? `${address} ${name}` : name
  }
}

function isOrder({ area, request }: Exchange): boolean {
  return request.method === 'POST' && (area === 'float-order' || area === 'order')
}

const fieldNames = ['ratelimit', 'ratelimit-policy']

/**
 * Our fields are left out if the upstream sends rate-limit fields, which pass unchanged: a reader could not tell apart
 * two policies of one name.
 */
export function rateLimitFields(
  { rateLimit }: Exchange,
  received: readonly string[] = [],
): readonly string[] {
  if (rateLimit === undefined) return []
  const upstreamSpeaks = fieldNames.some(
    (name) => headerValues(received, name).length > 0,
  )
  return upstreamSpeaks ? [] : rateLimit.fields
}
