import { expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { QuotesOfAll } from '../../src/memory/shared-quotes.ts'
import { aQuote } from '../support/stores/a-quote.ts'
import { startValkey, storeAt, type ValkeyServer } from '../support/stores/valkey.ts'

// In a rolling update both versions use one store. What version 1.1 wrote and read there is written out here.

const storeKey = 'quotegate:cache:key'
const lifeMs = 30_000

async function replicaOf(server: ValkeyServer) {
  const shared = new QuotesOfAll({
    sharedStore: await storeAt(server.url),
    clock: systemClock,
    minValidityMs: 0,
    lockWaitMs: 1_000,
    isUsed: () => false,
  })
  const look = { flight: { left: undefined }, waits: true, known: undefined }
  return () => shared.look('key', look)
}

it('a replica of either version finds the quote that the other has fetched', {
  tags: ['redis-server'],
}, async () => {
  const server = await startValkey()
  const look = await replicaOf(server)
  const { id, body, headers, expiresAtMs } = aQuote({ id: 'theirs', lifeMs })
  const head = [lifeMs, expiresAtMs, ...headers]
  const [seconds = ''] = (await server.ask('TIME')) as string[]
  const storeNowMs = Number(seconds) * 1_000
  await server.ask('HSET', storeKey, 'quote', `"${id}"\n${JSON.stringify(head)}\n${body}`)
  await server.ask('HSET', storeKey, 'expires', expiresAtMs)
  await server.ask('HSET', storeKey, 'servedUntil', storeNowMs + lifeMs)
  await server.ask('HSET', storeKey, 'refusedFrom', storeNowMs + lifeMs + 500)
  expect(await look()).toMatchObject({
    quote: { id, body, headers, lifeMs, expiresAtMs },
  })
  await server.ask('DEL', storeKey)

  const turn = await look()
  expect((await server.ask('HKEYS', storeKey)) as string[]).toEqual([
    'lock',
    'lockedUntil',
  ])
  const ours = aQuote({ id: 'ours', lifeMs })
  if (turn.kind === 'turn') turn.put(ours)
  await expect
    .poll(() => server.ask('HGET', storeKey, 'expires'))
    .toBe(String(ours.expiresAtMs))
  const fields = (await server.ask('HGETALL', storeKey)) as string[]
  const written = new Map(
    fields.flatMap((name, at) => (at % 2 === 0 ? [[name, fields[at + 1]]] : [])) as [
      string,
      string,
    ][],
  )
  expect([...written.keys()].sort()).toEqual([
    'expires',
    'quote',
    'refusedFrom',
    'servedUntil',
  ])
  const oursHead = JSON.stringify([lifeMs, ours.expiresAtMs, ...ours.headers])
  expect(written.get('quote')).toBe(`"ours"\n${oursHead}\n${ours.body}`)
  const leftMs = Number(written.get('servedUntil')) - Date.now()
  expect(leftMs).toBeLessThanOrEqual(lifeMs)
  expect(Number(written.get('refusedFrom'))).toBeGreaterThanOrEqual(
    Number(written.get('servedUntil')),
  )
  await server.end()
})
