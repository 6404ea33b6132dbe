import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createMemoryRateLimiter } from '../../src/client/memory-rate-limiter.ts'

beforeEach(() => {
  vi.useFakeTimers({ now: Date.UTC(2025, 10, 20, 15, 17, 21) })
})
afterEach(() => {
  vi.useRealTimers()
})

describe('the rate limiter in memory', () => {
  it('allows so many a minute, then refuses, and tells what is left and for how long', async () => {
    const limiter = createMemoryRateLimiter({ perMinute: 2 })
    expect(await limiter.take('a')).toEqual({ allowed: true, remaining: 1, resetMs: 60_000 })
    vi.advanceTimersByTime(20_000)
    expect(await limiter.take('a')).toEqual({ allowed: true, remaining: 0, resetMs: 40_000 })
    expect(await limiter.take('a')).toEqual({ allowed: false, remaining: 0, resetMs: 40_000 })
    vi.advanceTimersByTime(39_999)
    expect(await limiter.take('a')).toEqual({ allowed: false, remaining: 0, resetMs: 1 })
    vi.advanceTimersByTime(1)
    expect(await limiter.take('a')).toEqual({ allowed: true, remaining: 1, resetMs: 60_000 })
  })

  it('counts each bucket by itself', async () => {
    const limiter = createMemoryRateLimiter({ perMinute: 1 })
    expect((await limiter.take('a')).allowed).toBe(true)
    expect((await limiter.take('b')).allowed).toBe(true)
    expect((await limiter.take('a')).allowed).toBe(false)
  })

  it('takes back what was not used', async () => {
    const limiter = createMemoryRateLimiter({ perMinute: 1 })
    await limiter.take('a')
    await limiter.giveBack('a')
    expect(await limiter.take('a')).toMatchObject({ allowed: true, remaining: 0 })
    expect((await limiter.take('a')).allowed).toBe(false)
  })

  it('has what was taken back for the next one, however many were refused before', async () => {
    const limiter = createMemoryRateLimiter({ perMinute: 1 })
    await limiter.take('a')
    for (let refused = 0; refused < 3; refused++) expect((await limiter.take('a')).allowed).toBe(false)
    await limiter.giveBack('a')
    expect((await limiter.take('a')).allowed).toBe(true)
    expect((await limiter.take('a')).allowed).toBe(false)
  })

  it('gives nobody one more for the next minute by taking back after the end of this one', async () => {
    const limiter = createMemoryRateLimiter({ perMinute: 1 })
    await limiter.take('a')
    vi.advanceTimersByTime(60_000)
    await limiter.giveBack('a')
    expect((await limiter.take('a')).allowed).toBe(true)
    expect((await limiter.take('a')).allowed).toBe(false)
  })

  it('never tells of more than a minute when the wall clock is set back', async () => {
    const limiter = createMemoryRateLimiter({ perMinute: 1 })
    await limiter.take('a')
    vi.setSystemTime(Date.now() - 3_600_000)
    expect((await limiter.take('a')).resetMs).toBe(60_000)
  })

  // Names are made up by clients: a new one for each request would fill the memory within the minute.
  it('keeps a bounded number of buckets, and drops the one that was used longest ago', async () => {
    const limiter = createMemoryRateLimiter({ perMinute: 1, bucketsMost: 3 })
    for (const bucket of ['busy', 'idle', 'c']) await limiter.take(bucket)
    expect((await limiter.take('busy')).allowed).toBe(false)
    await limiter.take('one too many')
    expect((await limiter.take('busy')).allowed).toBe(false)
    expect((await limiter.take('c')).allowed).toBe(false)
    expect((await limiter.take('idle')).allowed).toBe(true)
  })

  it('holds no more timers than buckets under a flood of new ones', async () => {
    const limiter = createMemoryRateLimiter({ perMinute: 1, bucketsMost: 100 })
    for (let index = 0; index < 10_000; index++) await limiter.take(`made up ${index}`)
    expect(vi.getTimerCount()).toBe(100)
  })
})
