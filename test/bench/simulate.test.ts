import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { replaceGenerated } from '../../bench/shared/generated.ts'
import { createRandom } from '../../bench/simulation/random.ts'
import { callsTable, describeScenario, type Result } from '../../bench/simulation/report.ts'
import { replicaCounts, replicasTable } from '../../bench/simulation/report-replicas.ts'
import { modes, type Settings, simulate } from '../../bench/simulation/run.ts'
import { createSharedStore } from '../../bench/simulation/shared-store.ts'
import { createClients, createTraffic, type Scenario, scriptedHour } from '../../bench/simulation/traffic.ts'
import { createVirtualTime } from '../../bench/simulation/virtual-time.ts'
import { storedQuote } from '../support/stores/stored-quote.ts'

/** Few pairs, so that even a few clients meet. */
const fiveMinutes: Scenario = {
  ...scriptedHour,
  durationMs: 300_000,
  clients: 150,
  countries: 3,
  pairs: 4,
  amounts: 2,
}

describe('the simulation', () => {
  const results: Result[] = []

  beforeAll(async () => {
    for (const refreshAheadMs of [0, 5_000]) {
      for (const mode of modes) results.push(await run({ mode, refreshAheadMs }))
    }
  })

  async function run(settings: Settings): Promise<Result> {
    return { scenario: fiveMinutes, ...settings, totals: await simulate(fiveMinutes, settings) }
  }

  it('gives the same numbers every time', async () => {
    for (const { mode, refreshAheadMs, totals } of results) {
      expect((await run({ mode, refreshAheadMs })).totals).toEqual(totals)
    }
  })

  it('gives other numbers for another seed', () => {
    expect(createTraffic({ ...fiveMinutes, seed: 1 })).not.toEqual(createTraffic(fiveMinutes))
  })

  it('counts each request as one lookup and each call by one cause', () => {
    const sent = createTraffic(fiveMinutes).length
    expect(sent).toBeGreaterThan(500)
    for (const { totals } of results) {
      const { hit, miss, expired, collapsed, bypass } = totals.lookups
      expect(totals.requests).toBe(sent)
      expect(hit + miss + expired + collapsed + bypass).toBe(sent)
      expect(miss + expired + totals.refreshes).toBe(totals.upstreamCalls)
    }
  })

  it('never needs more calls for a partition that holds more clients', () => {
    for (const refreshAheadMs of [0, 5_000]) {
      const calls = results
        .filter((result) => result.refreshAheadMs === refreshAheadMs)
        .map(({ totals }) => totals.upstreamCalls)
      expect(calls).toEqual(calls.toSorted((left, right) => right - left))
      expect(calls.at(-1)).toBeLessThan(calls[0] ?? 0)
    }
  })

  it('serves no quote that has expired, and some that are about to', () => {
    for (const { totals } of results) {
      expect(totals.minLifeLeftMs).toBeGreaterThan(0)
      expect(totals.minLifeLeftMs).toBeLessThan(1_000)
    }
  })

  it('makes fewer requests wait if quotes are refreshed ahead', () => {
    for (const mode of modes) {
      const [off, on] = results.filter((result) => result.mode === mode)
      expect(off?.totals.refreshes).toBe(0)
      expect(on?.totals.refreshes).toBeGreaterThan(0)
      expect(on?.totals.waited).toBeLessThan(off?.totals.waited ?? 0)
    }
  })
})

describe('several replicas', () => {
  const run = (settings: Partial<Settings>) =>
    simulate(fiveMinutes, { mode: 'none', refreshAheadMs: 0, ...settings })

  it('that share nothing need more calls the more of them there are', async () => {
    const calls: number[] = []
    for (const replicas of replicaCounts) calls.push((await run({ replicas })).upstreamCalls)
    expect(calls).toEqual(calls.toSorted((left, right) => left - right))
    expect(calls.at(-1)).toBeGreaterThan(2 * (calls[0] ?? 0))
  })

  it('that share a store need no more calls than one replica does', async () => {
    for (const mode of modes) {
      const { upstreamCalls: ofOne } = await run({ mode })
      for (const replicas of replicaCounts) {
        const totals = await run({ mode, replicas, shared: true })
        // A look-up takes a moment, which here and there makes a quote expire before or after a request.
        expect(Math.abs(totals.upstreamCalls - ofOne) / ofOne).toBeLessThan(0.02)
        expect(totals.fromStore > 0).toBe(replicas > 1)
      }
    }
  })

  it('give the same numbers every time', async () => {
    const settings = { replicas: 4, shared: true, refreshAheadMs: 5_000 }
    expect(await run(settings)).toEqual(await run(settings))
  })

  it('make one call for a quote during its life, whichever replica is asked', async () => {
    const oneQuote: Scenario = { ...fiveMinutes, clients: 60, pairs: 1, amounts: 1, durationMs: 20_000 }
    const totals = await simulate(oneQuote, { mode: 'none', refreshAheadMs: 0, replicas: 4, shared: true })
    expect(totals.requests).toBeGreaterThan(20)
    expect(totals.upstreamCalls).toBe(1)
  })

  it('wait for each other when they miss the same quote in the same moment', async () => {
    const time = createVirtualTime(1_000)
    const store = createSharedStore({ time, latencyMs: 1, refreshAheadMs: 0 })
    const came: number[] = []
    let calls = 0
    const { signal } = new AbortController()
    async function ask(): Promise<void> {
      const { quote, put } = await store.quoteOrLock('key', { signal, waits: true, known: undefined })
      if (quote === undefined) {
        calls += 1
        await new Promise<void>((resolve) => time.at(time.nowMs() + 80, resolve))
        put(storedQuote({ expiresAtMs: 31_000 }))
      }
      came.push(time.nowMs())
    }
    for (const atMs of [1_000, 1_000, 1_040, 2_000]) time.at(atMs, () => void ask())
    await time.run()
    expect(calls).toBe(1)
    // One called, two waited and got the answer a round trip later, and one found the quote.
    expect(came).toEqual([1_081, 1_082, 1_082, 2_001])
    expect(store.found).toBe(3)
  })
})

describe('the scripted hour', () => {
  it('has the clients, pairs, amounts and lifetimes of the issue', () => {
    expect(scriptedHour).toMatchObject({
      clients: 1_000,
      pairs: 200,
      amounts: 20,
      quoteLifeMs: 30_000,
      durationMs: 3_600_000,
    })
  })

  it('gives every client an address of its own', () => {
    const clients = createClients(scriptedHour, createRandom(scriptedHour.seed))
    expect(new Set(clients.map(({ address }) => address)).size).toBe(1_000)
  })

  it('makes as many requests at its start as at its end', () => {
    const requests = createTraffic(scriptedHour)
    const tenths = Array.from({ length: 10 }, (_tenth, index) => {
      const isOfTenth = ({ atMs }: { atMs: number }) => Math.floor(atMs / 360_000) === index
      return requests.filter(isOfTenth).length
    })
    const mean = requests.length / 10
    for (const tenth of tenths) expect(Math.abs(tenth - mean) / mean).toBeLessThan(0.1)
  })
})

describe('virtual time', () => {
  it('runs events by time, and events of one moment in the order in which they were planned', async () => {
    const time = createVirtualTime(1_000)
    const seen: string[] = []
    const note = (name: string) => () => seen.push(`${name} ${time.nowMs()}`)
    time.at(1_030, note('late'))
    time.at(1_010, () => {
      note('first')()
      time.at(1_020, note('planned on the way'))
      time.at(1_010, note('at once'))
    })
    time.at(1_010, note('second'))
    await time.run()
    expect(seen).toEqual([
      'first 1010',
      'second 1010',
      'at once 1010',
      'planned on the way 1020',
      'late 1030',
    ])
  })

  it('finishes the longest chain of promises before the clock moves on', async () => {
    const time = createVirtualTime(1_000)
    let finishedAtMs = 0
    time.at(1_001, () => {
      let chain = Promise.resolve()
      for (let link = 0; link < 1_000; link += 1) chain = chain.then(async () => undefined)
      void chain.then(() => {
        finishedAtMs = time.nowMs()
      })
    })
    time.at(1_002, () => expect(finishedAtMs).toBe(1_001))
    await time.run()
    expect(finishedAtMs).toBe(1_001)
  })

  it('refuses an event in the past', () => {
    expect(() => createVirtualTime(1_000).at(999, () => {})).toThrow(RangeError)
  })
})

describe('docs/scaling.md', () => {
  const page = readFileSync(new URL('../../docs/scaling.md', import.meta.url), 'utf8')

  it('has a row for each mode and number of replicas of the current scenario', () => {
    expect(page).toContain(replicasTable([]))
    expect(page).toContain(`${createTraffic(scriptedHour).length.toLocaleString('en-US')} requests`)
    for (const mode of modes) {
      for (const replicas of replicaCounts)
        expect(page).toMatch(new RegExp(`^\\| ${mode} \\| ${replicas} \\|`, 'm'))
    }
  })

  it('keeps its other generated parts when one part is written again', () => {
    const rewritten = replaceGenerated(page, 'new\n', 'npm run cost')
    expect(rewritten).toContain(replicasTable([]))
    expect(rewritten).not.toContain('| quote from memory |')
  })
})

describe('docs/partitions.md', () => {
  const page = readFileSync(new URL('../../docs/partitions.md', import.meta.url), 'utf8')
  const chart = readFileSync(new URL('../../docs/partitions.svg', import.meta.url), 'utf8')

  it('was written for the current scenario', () => {
    expect(page).toContain(describeScenario(scriptedHour))
    expect(page).toContain(callsTable([]))
    const requests = createTraffic(scriptedHour).length.toLocaleString('en-US')
    for (const mode of modes) expect(page).toContain(`| ${mode} | off | ${requests} |`)
  })

  it('has a chart of the same numbers', () => {
    const rows = page.matchAll(/^\| (?:ip|header|none) \| (?:off|5,000 ms) \| \S+ \| (\S+) \|/gm)
    const calls = Array.from(rows, ([, upstreamCalls]) => upstreamCalls)
    expect(calls).toHaveLength(6)
    for (const upstreamCalls of calls) expect(chart).toContain(`>${upstreamCalls}</text>`)
  })

  it('keeps its prose when the numbers are written again', () => {
    const rewritten = replaceGenerated(page, 'new\n')
    expect(rewritten).toContain('# Who may share a quote')
    expect(rewritten).toContain('### How to read it')
    expect(rewritten).not.toContain('### Calls by mode')
    expect(replaceGenerated(rewritten, 'new\n')).toBe(rewritten)
  })
})
