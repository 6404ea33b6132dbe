import { describe, expect, test } from 'vitest'
import { printConfig } from '../../src/config/help.ts'
import { loadConfig } from '../../src/config/load.ts'

const mebibyte = 2 ** 20
const load = (given: Record<string, string>, heapMiB: number, processMiB = 2 * heapMiB) =>
  loadConfig(given, {
    memory: { heapBytes: heapMiB * mebibyte, processBytes: processMiB * mebibyte },
  })

function sizes(
  given: Record<string, string>,
  heapMiB: number,
): [cached: number, known: number] {
  const { config } = load(given, heapMiB)
  return [config.quotes.cacheEntries, config.ledger.entries]
}

describe('how many quotes are kept', () => {
  test('is the same for all processes with enough memory', () => {
    for (const heapMiB of [4_144, 820])
      expect(sizes({}, heapMiB)).toEqual([100_000, 200_000])
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

  test('is never 0', () => expect(sizes({}, 1)).toEqual([100, 100]))

  test('is what is set, which does not change the other limit', () => {
    expect(sizes({ QUOTE_CACHE_ENTRIES: '2000' }, 67)).toEqual([2_000, sizes({}, 67)[1]])
    expect(sizes({ LEDGER_ENTRIES: '7' }, 4_144)).toEqual([100_000, 7])
  })

  test('is shown with its reason by --print-config', () => {
    const shown = printConfig(load({ LEDGER_ENTRIES: '5000' }, 67))
    expect(shown).toContain(
      'QUOTE_CACHE_ENTRIES=3500  (default 100000, less for a heap limit of 67 MiB)',
    )
    expect(shown).toContain('LEDGER_ENTRIES=5000  (environment)')
    expect(printConfig(load({}, 4_144))).toContain('LEDGER_ENTRIES=200000  (default)')
  })
})

test('a start warns with figures if the quotes take more than half of the heap', () => {
  const given = { QUOTE_CACHE_ENTRIES: '20000', LEDGER_ENTRIES: '50000' }
  const text = 'LEDGER_ENTRIES=50000 take 61 MiB when full, of a heap limit of 67 MiB'
  expect(load(given, 67).warnings).toEqual([expect.stringContaining(text)])
  expect(load(given, 131).warnings).toEqual([])
})

test('a start warns of a heap limit that the process cannot have', () => {
  const text = 'V8 may fill 259 MiB with objects, and the process may take 256 MiB in all'
  expect(load({}, 259, 256).warnings).toEqual([expect.stringContaining(text)])
  expect(load({}, 259, 512).warnings).toEqual([])
})
