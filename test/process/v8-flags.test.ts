import { expect, test } from 'vitest'
import { v8Flags } from '../../src/process/memory.ts'

const flagsFor = (heapMiB: number, processMiB: number) =>
  v8Flags({ heapBytes: heapMiB * 2 ** 20, processBytes: processMiB * 2 ** 20 })

const always = ['--no-allocation-site-pretenuring']

// In a container of 128 MiB the flags that let V8 grow made the process grow into the limit after 9,000 requests.
test.each([
  [67, 128],
  [131, 256],
  [195, 384],
  [259, 511],
])('V8 is not told to grow with a heap limit of %i MiB in %i MiB', (heapMiB, processMiB) => {
  expect(flagsFor(heapMiB, processMiB)).toEqual(always)
})

test.each([
  [259, 512],
  [560, 1_024],
  [4_144, 24_105],
])('V8 gets the flags to grow with a heap limit of %i MiB in %i MiB', (heapMiB, processMiB) => {
  expect(flagsFor(heapMiB, processMiB)).toEqual([
    ...always,
    '--semi-space-growth-factor=16',
    '--no-memory-reducer',
    '--heap-growing-percent=300',
  ])
})

test('V8 is not told to grow where a full heap leaves no room for the rest', () => {
  expect(flagsFor(1_000, 1_024)).toEqual(always)
})
