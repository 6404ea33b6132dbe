import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createMemoryRateLimiter } from '../../src/client/rate-limiter.ts'

beforeEach(() => {
  vi.useFakeTimers({ now: Date.UTC(2025, 10, 20, 15, 17, 21) })
})
afterEach(() => {
  vi.useRealTimers()
})

describe('the rate limiter in memory', () => {
  it('allows perMinute requests, then refuses, and says how many are left and until when', async () => {
    const limiter = createMemoryRateLimiter(2)
    expect(await limiter.take('a')).toMatchObject({
      allowed: true,
      remaining: 1,
      resetMs: 60_000,
    })
    vi.advanceTimersByTime(20_000)
    expect(await limiter.take('a')).toMatchObject({
      allowed: true,
      remaining: 0,
      resetMs: 40_000,
    })
    expect(await limiter.take('a')).toMatchObject({
      allowed: false,
      remaining: 0,
      resetMs: 40_000,
    })
    vi.advanceTimersByTime(39_999)
    expect(await limiter.take('a')).toMatchObject({
      allowed: false,
      remaining: 0,
      resetMs: 1,
    })
    vi.advanceTimersByTime(1)
    expect(await limiter.take('a')).toMatchObject({
      allowed: true,
      remaining: 1,
      resetMs: 60_000,
    })
  })

  it('keeps each minute a minute long when the wall clock is set back or forward', async () => {
    const limiter = createMemoryRateLimiter(1)
    await limiter.take('a')
    for (const step of [-3_600_000, 7_200_000]) {
      vi.setSystemTime(Date.now() + step)
      expect(await limiter.take('a')).toMatchObject({
        allowed: false,
        remaining: 0,
        resetMs: 60_000,
      })
    }
    vi.advanceTimersByTime(60_000)
    expect((await limiter.take('a')).allowed).toBe(true)
  })

  // A caller that makes up a new name for each request would fill the memory otherwise.
  it('keeps a bounded number of buckets, and drops the one used longest ago', async () => {
    const limiter = createMemoryRateLimiter(1, 3)
    for (const bucket of ['busy', 'idle', 'c']) await limiter.take(bucket)
    expect((await limiter.take('busy')).allowed).toBe(false)
    await limiter.take('one too many')
    expect((await limiter.take('busy')).allowed).toBe(false)
    expect((await limiter.take('c')).allowed).toBe(false)
    expect((await limiter.take('idle')).allowed).toBe(true)
  })
})
