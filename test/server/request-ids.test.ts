import { expect, test, vi } from 'vitest'
import { nextRequestId } from '../../src/server/exchange.ts'

test('creates unique ids in the form of UUIDs, in an order that does not reveal their number', () => {
  const ids = Array.from({ length: 100_000 }, nextRequestId)
  for (const id of ids.slice(0, 1_000))
    expect(id).toMatch(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.toSorted()).not.toEqual(ids)
})

test('begins each process with ids of its own', async () => {
  vi.resetModules()
  const ofAnother = await import('../../src/server/exchange.ts')
  expect(ofAnother.nextRequestId().slice(0, -8)).not.toBe(nextRequestId().slice(0, -8))
})
