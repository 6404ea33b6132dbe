import { describe, expect, test } from 'vitest'
import { printConfig } from '../../src/config/help.ts'
import { loadConfig } from '../../src/config/load.ts'

const mebibyte = 2 ** 20
const limits = (heapMiB: number, processMiB = 2 * heapMiB) => ({
  memory: { heapBytes: heapMiB * mebibyte, processBytes: processMiB * mebibyte },
})
const load = (given: Record<string, string>, heapMiB: number, processMiB?: number) =>
  loadConfig(given, limits(heapMiB, processMiB))

function sizes(given: Record<string, string>, heapMiB: number): [number, number] {
  const { config } = load(given, heapMiB)
  return [config.quotes.cacheEntries, config.ledger.entries]
}

describe('how many quotes are kept, where nothing is set', () => {
  test('is the same for all processes with enough memory', () => {
    expect(sizes({}, 4_144)).toEqual([100_000, 200_000])
    expect(sizes({}, 820)).toEqual([100_000, 200_000])
  })

  test.each([67, 131, 259, 560])(
    'is at most a third of a heap limit of %i MiB, by one factor for both',
    (heapMiB) => {
      const [cached, known] = sizes({}, heapMiB)
      expect(cached * 0.5 + known).toBeLessThanOrEqual((heapMiB * 1_024) / 3)
      expect(known / cached).toBeCloseTo(2, 1)
      expect(cached).toBeGreaterThan(1_000)
    },
  )

  test('grows with the heap limit, and is never 0', () => {
    const found = [1, 40, 67, 131, 259, 560, 1_120].map((heapMiB) => sizes({}, heapMiB)[1])
    expect(found).toEqual([...found].sort((left, right) => left - right))
    expect(found[0]).toBe(100)
  })

  test('is shown with its reason by --print-config', () => {
    const shown = printConfig(load({}, 67))
    expect(shown).toContain('QUOTE_CACHE_ENTRIES=3500  (default 100000, less for a heap limit of 67 MiB)')
    expect(shown).toContain('LEDGER_ENTRIES=7000  (default 200000, less for a heap limit of 67 MiB)')
    expect(printConfig(load({}, 4_144))).toContain('LEDGER_ENTRIES=200000  (default)')
  })
})

describe('what is set', () => {
  test('is used as set, and does not change the other limit', () => {
    expect(sizes({ QUOTE_CACHE_ENTRIES: '2000' }, 67)).toEqual([2_000, sizes({}, 67)[1]])
    expect(sizes({ LEDGER_ENTRIES: '7' }, 4_144)).toEqual([100_000, 7])
    expect(printConfig(load({ LEDGER_ENTRIES: '5000' }, 67))).toContain('LEDGER_ENTRIES=5000  (environment)')
  })

  test('causes a warning with figures if it takes more than half of the heap', () => {
    const given = { QUOTE_CACHE_ENTRIES: '20000', LEDGER_ENTRIES: '50000' }
    expect(load(given, 67).warnings).toEqual([
      'QUOTE_CACHE_ENTRIES=20000 and LEDGER_ENTRIES=50000 take 61 MiB when full, of a heap limit of 67 MiB: the process ' +
        'may run out of memory. Set them lower, or give the process more memory.',
    ])
    expect(load(given, 131).warnings).toEqual([])
    expect(load({ LEDGER_ENTRIES: '10000000' }, 4_144).warnings.join()).toContain('take 9827 MiB when full')
  })
})

describe('a heap limit that the process cannot have', () => {
  test('causes a warning that says how to start instead', () => {
    expect(load({}, 259, 256).warnings).toEqual([
      'V8 may fill 259 MiB with objects, and the process may take 256 MiB in all: it may be killed before V8 collects. ' +
        'Start it with node --max-old-space-size-percentage=50, or give it more memory.',
    ])
    expect(load({}, 259, 512).warnings).toEqual([])
  })
})
