import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { levels } from '../support/observing/log-lines.ts'
import { asIfKilled, idsOf, newFolder, opened, quote, record, untilSynced, untilWritten } from './support.ts'

test('noted records are read again in order after a clean shutdown, and forgotten ones are not', async () => {
  const folder = newFolder()
  const first = await opened(folder)
  const serials = [1, 2, 3].map((number) => first.note(record(number)))
  first.note({ kind: 'use', value: { id: 'used', expiresAtMs: 5 } })
  const unreadable = {
    pairId: 'ETH_USDC',
    application: 'w',
    requestedAmount: '1',
    partition: 'p',
    relayedAtMs: 7,
  }
  first.note({ kind: 'unreadable', value: unreadable })
  first.forget(serials[1] ?? 0)
  await first.state.close()

  const { restored } = await opened(folder)
  expect(restored.records.map(([, kept]) => kept)).toEqual([
    record(1),
    record(3),
    { kind: 'use', value: { id: 'used', expiresAtMs: 5 } },
    { kind: 'unreadable', value: unreadable },
  ])
  expect(restored.isClean).toBe(true)
})

test('a first startup finds nothing, and counts as after a clean shutdown', async () => {
  const { restored, state, lines } = await opened(newFolder())
  expect(restored).toEqual({
    ...{ records: [], lastSerial: 0, isClean: true },
    writtenAtMs: 0,
  })
  expect(state.facts).toMatchObject({ records: 0, backlog: 0, isWriting: true, restored: 0, missing: 0 })
  expect(lines()).toEqual([])
})

test('records written before kill -9 are read again, and the shutdown was not clean', async () => {
  const folder = newFolder()
  const first = await opened(folder)
  for (let number = 0; number < 1_000; number += 1) first.note(record(number))
  await untilWritten(first)
  const { restored, lines, state } = await opened(asIfKilled(folder))
  expect(restored.records).toHaveLength(1_000)
  expect(restored.isClean).toBe(false)
  expect(lines()).toEqual([])
  expect(state.facts).toMatchObject({ restored: 1_000, missing: 0 })
})

test('record numbers keep growing after a restart, so that no record replaces another', async () => {
  const folder = newFolder()
  const first = await opened(folder)
  first.note(record(1))
  const forgotten = first.note(record(2))
  await untilWritten(first)
  first.forget(forgotten)
  await first.state.close()
  const second = await opened(folder)
  expect(second.note(record(3))).toBeGreaterThan(forgotten)
  await second.state.close()
  expect(idsOf((await opened(folder)).restored.records)).toEqual(['quote-1', 'quote-3'])
})

test('a record that is forgotten before it was written is never written', async () => {
  const folder = newFolder()
  const first = await opened(folder)
  first.forget(first.note(record(1)))
  expect(first.state.facts.backlog).toBe(0)
  first.note(record(2))
  await first.state.close()
  const { restored, state } = await opened(folder)
  expect(idsOf(restored.records)).toEqual(['quote-2'])
  expect(state.facts.records).toBe(1)
})

test.each([
  ['its expiry', 0],
  ['later, as an answer says whose Date contradicts our clock', 1_234],
  ['earlier', -3_600_000],
])('a quote is over as late after a restart as before it: at %s', async (_when, lateMs) => {
  const folder = newFolder()
  const at = (nowMs: number, steadyMs: number) => ({ nowMs: () => nowMs, steadyMs: () => steadyMs })
  const expiresAtMs = 1_763_651_871_000
  const first = await opened(folder, { clock: at(expiresAtMs - 30_000, 5_000) })
  first.note({ kind: 'quote', value: quote(0, { expiresAtMs, refusedFromMs: expiresAtMs + lateMs }) })
  await first.state.close()
  // In wall time, because the steady clock ends with the process.
  const { restored } = await opened(folder, { clock: at(expiresAtMs - 20_000, 100) })
  const [, kept] = restored.records[0] ?? []
  expect(kept?.value).toMatchObject({ expiresAtMs, refusedFromMs: expiresAtMs + lateMs })
})

test('texts that are not valid UTF-8 survive, for example half of a surrogate pair', async () => {
  const folder = newFolder()
  const first = await opened(folder)
  const odd = quote(1, {
    pairId: 'ETH_\ud83d',
    id: 'ünïcödé "\\\u0000\n',
    partition: undefined,
    cacheKey: '',
  })
  first.note({ kind: 'quote', value: odd })
  await first.state.close()
  expect((await opened(folder)).restored.records.map(([, { value }]) => value)).toEqual([odd])
})

test('only this user can read the files, and the directory if the gateway created it', async () => {
  const folder = join(newFolder(), 'made')
  const first = await opened(folder)
  for (let number = 0; number < 10; number += 1) first.note(record(number))
  await untilSynced(first, folder)
  await first.state.close()
  await opened(folder)
  const mode = (path: string) => (statSync(path).mode & 0o777).toString(8)
  expect(mode(folder)).toBe('700')
  for (const name of ['store', 'lock']) expect(mode(join(folder, name))).toBe('700')
  for (const name of ['about', 'synced']) expect(mode(join(folder, name))).toBe('600')
  for (const name of readdirSync(join(folder, 'store'))) expect(mode(join(folder, 'store', name))).toBe('600')
})

test('every folder has a salt of its own, which stays', async () => {
  const [one, other] = [newFolder(), newFolder()]
  const first = await opened(one)
  expect(Buffer.from(first.state.salt, 'base64url')).toHaveLength(32)
  await first.state.close()
  expect((await opened(one)).state.salt).toBe(first.state.salt)
  expect((await opened(other)).state.salt).not.toBe(first.state.salt)
})

test("with a shared store the store's salt is used, and the folder does not contain it in readable form", async () => {
  const folder = newFolder()
  const { state } = await opened(folder, { salt: 'made-of-a-password' })
  expect(state.salt).toBe('made-of-a-password')
  expect(readFileSync(join(folder, 'about'), 'utf8')).not.toContain('made-of-a-password')
})

test('an answer that could not be read is found again by a client without an address', async () => {
  const folder = newFolder()
  const first = await opened(folder)
  const terms = { pairId: 'ETH_USDC', application: 'w', requestedAmount: '1', partition: undefined }
  first.note({ kind: 'unreadable', value: { ...terms, relayedAtMs: 7 } })
  await first.state.close()
  const { restored } = await opened(folder)
  expect(restored.records.map(([, { value }]) => value)).toEqual([{ ...terms, relayedAtMs: 7 }])
})

test('of more quotes than memory is meant for those that were noted first are left out, and removed', async () => {
  const directory = newFolder()
  const before = await opened(directory)
  for (let number = 0; number < 100; number += 1) before.note(record(number))
  before.note({ kind: 'use', value: { id: 'used', expiresAtMs: 1_763_651_841_000 } })
  await before.state.close()

  const smaller = await opened(directory, { maxQuotes: 20 })
  const ids = idsOf(smaller.restored.records)
  expect(ids.slice(-2)).toEqual(['quote-99', 'used'])
  expect(ids.length).toBeGreaterThan(20)
  expect(ids.length).toBeLessThanOrEqual(26)
  expect(ids[0]).toBe(`quote-${101 - ids.length}`)
  expect(smaller.lines(levels.warn)).toMatchObject([{ leftOut: 101 - ids.length }])
  await smaller.state.close()

  const last = await opened(directory)
  expect(idsOf(last.restored.records)).toEqual(ids)
  expect(last.state.facts).toMatchObject({ records: ids.length, missing: 0, setAside: 0 })
})
