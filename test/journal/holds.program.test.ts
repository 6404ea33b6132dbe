import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { sealLine } from '../../src/memory/records.ts'
import { act, statusOf } from '../operations/support.ts'
import { orderClient } from '../support/clients/orders.ts'
import { gatewayWith, recordingUpstream } from '../support/gateways/between.ts'
import { startListening } from '../support/gateways/program.ts'
import { asIfKilled, fileName, newFolder } from './disk-support.ts'

const hold = { reason: 'a wrong price', minutes: 30 }
const order = '{"pairId":"ETH_USDC","fromAmount":1}'

async function provider() {
  return recordingUpstream((_request, response) => void response.writeHead(201).end('{}'))
}

it('after kill -9 what was held is held, and what was released is not', async () => {
  const upstream = await provider()
  const directory = newFolder()
  const start = () =>
    startListening({ STATE_DIRECTORY: directory, SWAP_BASE_URL: upstream.url })
  const first = await start()
  await act(first as never, 'hold', { ...hold, pair: 'ETH_USDC' })
  await act(first as never, 'hold', { ...hold, pair: 'BTC_USDC' })
  await act(first as never, 'release', { pair: 'BTC_USDC' })
  const before = (await statusOf(first)).holds
  first.child.kill('SIGKILL')
  await first.exit
  const second = await start()
  const after = (await statusOf(second)).holds
  expect(after).toEqual([
    { ...before[0], since: expect.any(Number), until: expect.any(Number) },
  ])
  expect(Math.abs(after[0].until - before[0].until)).toBeLessThan(100)
  const { order: send } = orderClient(second as never)
  expect((await send(order)).status).toBe(503)
  expect((await send(order.replace('ETH', 'BTC'))).status).toBe(201)
  expect(upstream.requests).toHaveLength(1)
  expect(second.stdout()).toContain('held: orders of ETH_USDC: a wrong price')
  second.child.kill('SIGTERM')
  await second.exit
})

it('a hold that ended meanwhile, and a copy of the file, are as they should be', async () => {
  const upstream = await provider()
  const directory = newFolder()
  const settings = { STATE_DIRECTORY: directory, SWAP_BASE_URL: upstream.url }
  let nowMs = Date.now()
  let steadyMs = 5_000
  const clock = { nowMs: () => nowMs, steadyMs: () => steadyMs }
  const first = await gatewayWith(settings, { clock })
  await act(first, 'hold', { ...hold, pair: 'ETH_USDC', minutes: 10 })
  await act(first, 'hold', {
    ...hold,
    pair: 'BTC_USDC',
    quotes: true,
    application: 'wallet',
  })
  const killed = asIfKilled(directory)
  nowMs += 600_000
  steadyMs += 600_000
  // A clean end writes the file again, from memory.
  await first.close()
  // Another process counts from another begin.
  steadyMs = 7
  for (const folder of [killed, directory]) {
    const later = await gatewayWith({ ...settings, STATE_DIRECTORY: folder }, { clock })
    expect((await statusOf(later)).holds).toMatchObject([
      {
        pair: 'BTC_USDC',
        application: 'wallet',
        quotes: true,
        reason: hold.reason,
        until: nowMs + 1_200_000,
      },
    ])
    await later.close()
  }
})

it('a hold is held under another SWAP_BASE_URL too, and what was said last of a scope counts', async () => {
  const [upstream, other] = [await provider(), await provider()]
  const directory = newFolder()
  const settings = { STATE_DIRECTORY: directory, SWAP_BASE_URL: upstream.url }
  const first = await gatewayWith(settings)
  await act(first, 'hold', { ...hold, pair: 'ETH_USDC' })
  await act(first, 'hold', { ...hold, pair: 'BTC_USDC' })
  await act(first, 'release', { pair: 'BTC_USDC' })
  const before = (await statusOf(first)).holds
  await first.close()
  const second = await gatewayWith({ ...settings, SWAP_BASE_URL: other.url })
  const [held, ...more] = (await statusOf(second)).holds
  expect([held?.pair, more]).toEqual(['ETH_USDC', []])
  expect(Math.abs(held.until - before[0].until)).toBeLessThan(100)
  expect((await orderClient(second).order(order)).status).toBe(503)
  expect(other.requests).toEqual([])
  // It is in the new file as well.
  const killed = asIfKilled(directory)
  await second.close()
  const later = { ...settings, STATE_DIRECTORY: killed, SWAP_BASE_URL: other.url }
  expect((await statusOf(await gatewayWith(later))).holds).toMatchObject([
    { pair: 'ETH_USDC' },
  ])
})

it('a kind of record that is not known costs its line alone', async () => {
  const upstream = await provider()
  const directory = newFolder()
  const settings = { STATE_DIRECTORY: directory, SWAP_BASE_URL: upstream.url }
  const first = await gatewayWith(settings)
  await act(first, 'hold', hold)
  const killed = asIfKilled(directory)
  const path = join(killed, fileName)
  const [head, ...lines] = readFileSync(path, 'utf8').split('\n')
  writeFileSync(path, [head, sealLine(['x', Date.now(), 'a', 1]), ...lines].join('\n'))
  appendFileSync(path, `${sealLine(['h', Date.now(), 'not a hold'])}\n`)
  const second = await gatewayWith({ ...settings, STATE_DIRECTORY: killed })
  const { holds, journal } = await statusOf(second)
  expect([holds.length, journal.disk.skipped]).toEqual([1, 2])
})
