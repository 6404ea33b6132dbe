import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { pause, until } from '../support/gateways/between.ts'
import {
  ids,
  streamKey,
  streamReplica,
  untilCaughtUp,
} from '../support/stores/stream-stage.ts'
import { valkey } from '../support/stores/valkey.ts'

describe('the journal among replicas', { tags: ['redis-server'] }, () => {
  test('has a record at every replica from the moment its caller has the quote, and soon where no order asks', async () => {
    const { url } = await valkey()
    const [here, there] = [await streamReplica(url), await streamReplica(url)]
    await untilCaughtUp(here, there)
    for (const id of ids('quote', 50)) {
      await here.note([id])
      expect(await there.journal.caughtUp()).toBe(true)
      expect(there.knows([id])).toBe(true)
    }
    await there.use('quote-1')
    await until(() => here.reader.used.has('quote-1'), 'the record')
    expect(here.journal.facts).toMatchObject({
      appended: 51,
      waiting: 0,
      skipped: 0,
      behind: 0,
    })
  })

  test('is read whole before a replica takes requests', async () => {
    const { url } = await valkey()
    const names = ids('quote', 3_500)
    const here = await streamReplica(url, { timeoutMs: 5_000 })
    await here.note(names)
    const later = await streamReplica(url)
    expect(later.knows(names)).toBe(true)
  })

  test('is read once for all orders that come while a read is under way', async () => {
    const server = await valkey()
    const here = await streamReplica(server.url)
    await untilCaughtUp(here)
    const reads = async () =>
      Number(
        /cmdstat_xrange:calls=(\d+)/.exec(
          String(await server.ask('INFO', 'commandstats')),
        )?.[1],
      )
    const before = await reads()
    const orders = await Promise.all(
      Array.from({ length: 500 }, () => here.journal.caughtUp()),
    )
    expect(new Set(orders)).toEqual(new Set([true]))
    expect((await reads()) - before).toBeLessThan(50)
  })

  test('skips and counts what is not a record', async () => {
    const server = await valkey()
    const [here, there] = [
      await streamReplica(server.url),
      await streamReplica(server.url),
    ]
    await server.ask('XADD', streamKey, '*', 'r', 'no record')
    await server.ask('XADD', streamKey, '*', 'other', '[1,"n"]')
    await here.note(['quote'])
    await untilCaughtUp(here, there)
    expect([here, there].map(({ journal }) => journal.facts.skipped)).toEqual([2, 2])
  })

  // ioredis's own pipelining sends a command later than one that is sent after it.
  test('has what was appended before a read in that read, also in the same turn of the event loop', async () => {
    const here = await streamReplica((await valkey()).url)
    await untilCaughtUp(here)
    for (let turn = 1; turn <= 20; turn += 1) {
      const noted = here.note([`quote-${turn}`])
      expect(await here.journal.caughtUp()).toBe(true)
      // The first entry says nothing.
      expect(here.reader.delivered).toBe(1 + turn)
      await noted
    }
  })

  test('is bounded: the store drops the oldest', async () => {
    const server = await valkey()
    const here = await streamReplica(server.url, { maxEntries: 400, timeoutMs: 5_000 })
    await here.note(ids('quote', 3_000))
    const length = Number(await server.ask('XLEN', streamKey))
    expect(length).toBeGreaterThanOrEqual(1_000)
    expect(length).toBeLessThan(1_200)
  })
})

describe('what is left of a quote', { tags: ['redis-server'] }, () => {
  const lifeMs = 60_000
  const ageMs = 1_000
  const shifted = (byMs: number) => ({
    ...systemClock,
    nowMs: () => systemClock.nowMs() + byMs,
  })

  test.each([
    ['is what its writer says it is', 'at once', 3_600_000, 0],
    ['is what its writer says it is', 'at once', -3_600_000, 0],
    // By the store's clock, or by both.
    ['is less by its age', 'at a start', 0, ageMs],
    ['is less by its age', 'at a start', 3_600_000, ageMs],
    // By its writer's clock it has just been written: the later of two ends.
    ['is not more than at first', 'at a start', -3_600_000, 0],
  ])(
    '%s, where it is read %s by a clock that shows %d ms more',
    async (_what, when, byMs, leastAgeMs) => {
      const { url } = await valkey()
      const clock = shifted(byMs)
      const here = await streamReplica(url)
      const early = when === 'at once' ? await streamReplica(url, { clock }) : undefined
      await here.note(['quote'], lifeMs)
      if (early === undefined) await pause(ageMs)
      const there = early ?? (await streamReplica(url, { clock }))
      await until(() => there.knows(['quote']), 'the record')
      const { refusedFromMs = Number.NaN } = there.reader.quotes.get('quote')?.quote ?? {}
      expect(refusedFromMs - clock.nowMs()).toBeLessThanOrEqual(lifeMs - leastAgeMs + 10)
      expect(refusedFromMs - clock.nowMs()).toBeGreaterThan(lifeMs - 20_000)
    },
  )
})
