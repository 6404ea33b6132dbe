import { expect, test } from 'vitest'
import { createRequestIds } from '../../src/server/exchange.ts'

test('creates unique ids in the form of UUIDs, in an order that does not reveal their number', () => {
  const nextId = createRequestIds()
  const ids = Array.from({ length: 100_000 }, nextId)
  for (const id of ids.slice(0, 1_000)) expect(id).toMatch(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.toSorted()).not.toEqual(ids)
})

test('begins each process with ids of its own', () => {
  expect(createRequestIds()().slice(0, -8)).not.toBe(createRequestIds()().slice(0, -8))
})
