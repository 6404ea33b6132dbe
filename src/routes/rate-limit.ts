import { briefName } from '../client/application.ts'
import { type RateLimiter, type Taken, windowSeconds } from '../client/rate-limiter.ts'
import { headerLines, headerValues } from '../http/headers.ts'
import { Problem, UpstreamFailure } from '../http/problem.ts'
import type { Call } from '../quotes/quote-cache.ts'
import { ClientGone } from '../upstream/request-body.ts'
import type { Area } from './area.ts'
import type { Exchange } from './exchange.ts'

/** What a request is told of the limit that it was counted against. */
export interface RateLimitStanding {
  readonly allowed: boolean
  readonly bucket: string
  readonly fields: readonly string[]
}

/** Limits what each client may ask of the swap upstream. Where no limit is set there is none of these. */
export interface RateLimit {
  /** Whether answers that cost the upstream nothing count as well. */
  readonly countsHits: boolean
  /** Counts the request, once however often it comes by; rejects when its client has had its share. */
  count(exchange: Exchange): Promise<void>
  /** A quote call that is counted before it is made. */
  countedCall(exchange: Exchange, call: () => Call): Call
  /** The request never got to the upstream. */
  giveBack(exchange: Exchange): void
}

export interface RateLimitOptions {
  limiter: RateLimiter
  by: 'app-name' | 'client-ip' | 'both'
  countsHits: boolean
  /** For requests that bring no App-Name. */
  appName: string | undefined
  onRefused(area: Area): void
}

const whose = {
  'app-name': 'This application (App-Name)',
  'client-ip': 'This client address',
  both: 'This application (App-Name) at this client address',
} as const

export function createRateLimit(options: RateLimitOptions): RateLimit {
  const { by, limiter, onRefused } = options
  const policy = `"default";q=${limiter.perMinute};w=${windowSeconds}`

  function bucketOf({ client, request: { rawHeaders } }: Exchange): string {
    const address = client.address ?? 'unknown'
    if (by === 'client-ip') return address
    const name = briefName(headerLines(rawHeaders, 'app-name') ?? options.appName ?? '')
    // No address has a space in it.
    return by === 'both' ? `${address} ${name}` : name
  }

  function standing(bucket: string, { allowed, remaining, resetMs }: Taken): RateLimitStanding {
    const limit = `"default";r=${remaining};t=${Math.ceil(resetMs / 1_000)}`
    return { allowed, bucket, fields: ['RateLimit-Policy', policy, 'RateLimit', limit] }
  }

  function refusal({ resetMs }: Taken): Problem {
    const seconds = Math.max(1, Math.ceil(resetMs / 1_000))
    return new Problem('rate-limited', {
      detail: `${whose[by]} has made its ${limiter.perMinute} requests of this minute. Nothing was sent to the provider; ask again in ${seconds} s.`,
      headers: { 'Retry-After': String(seconds) },
    })
  }

  async function count(exchange: Exchange): Promise<void> {
    if (exchange.rateLimit?.allowed) return
    const bucket = bucketOf(exchange)
    const taken = await limiter.take(bucket)
    exchange.rateLimit = standing(bucket, taken)
    if (taken.allowed) return
    onRefused(exchange.area)
    throw refusal(taken)
  }

  function giveBack(exchange: Exchange): void {
    const { rateLimit } = exchange
    if (!rateLimit?.allowed) return
    exchange.rateLimit = undefined
    void takeBack(rateLimit.bucket)
  }

  /** A limiter that fails here leaves the client with one less for a minute: nobody's answer waits for it. */
  async function takeBack(bucket: string): Promise<void> {
    try {
      // One of somebody else's may throw at once, or return nothing.
      await limiter.giveBack(bucket)
    } catch {}
  }

  return {
    countsHits: options.countsHits,
    count,
    giveBack,
    countedCall(exchange, call) {
      let made: Call | undefined
      let givenUp = false
      // The call counts as under way from here on, so that those who ask meanwhile wait for it: were they
      // counted too, a crowd that needs one call would use up the share of many.
      const answer = count(exchange).then(() => {
        if (givenUp) {
          giveBack(exchange)
          throw new ClientGone('nobody waits for this quote any more', { maybeSeen: false })
        }
        made = call()
        return made.answer.catch((error) => {
          if (wasNeverSent(error)) giveBack(exchange)
          throw error
        })
      })
      return {
        answer,
        abort() {
          givenUp = true
          made?.abort()
        },
      }
    },
  }
}

/** Whether there was nobody to send a request to, or nobody left to send it for: the upstream has seen nothing of it. */
export function wasNeverSent(error: unknown): boolean {
  return (error instanceof UpstreamFailure || error instanceof ClientGone) && !error.maybeSeen
}

const noFields: readonly string[] = []
const fieldNames = ['ratelimit', 'ratelimit-policy']

/**
 * What an answer says of our limit. Nothing where the upstream speaks of its own: its fields pass unchanged, and
 * one list of both would leave the reader to guess whose "default" is whose.
 */
export function rateLimitFields(
  { rateLimit }: Exchange,
  received: readonly string[] = noFields,
): readonly string[] {
  if (rateLimit === undefined) return noFields
  const upstreamSpeaks = fieldNames.some((name) => headerValues(received, name).length > 0)
  return upstreamSpeaks ? noFields : rateLimit.fields
}

/** Whoever was to make a call for several clients has had its share: that says nothing of the others. */
export function isAnothersRefusal({ rateLimit }: Exchange, error: unknown): boolean {
  return error instanceof Problem && error.slug === 'rate-limited' && rateLimit?.allowed !== false
}
