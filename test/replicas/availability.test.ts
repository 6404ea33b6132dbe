import { EventEmitter } from 'node:events'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Availability } from '../../src/memory/availability.ts'
import type { ValkeyClient } from '../../src/memory/client.ts'
import { pause, until } from '../support/gateways/between.ts'
import { keptLog } from '../support/observing/log-lines.ts'

/** A client that the test plays, whose first greeting is refused with this. */
async function connected(refusal: Error) {
  const { logger: log } = await keptLog()
  const client = Object.assign(new EventEmitter(), {
    connect: async () => {},
    disconnect: vi.fn(),
  })
  const greet = vi.fn(async () => {})
  greet.mockRejectedValueOnce(refusal)
  const all = { client: client as unknown as ValkeyClient, timeoutMs: 50, log, greet }
  const availability = new Availability(all)
  onTestFinished(() => availability.close())
  expect(client.eventNames()).toEqual([])
  availability.start()
  client.emit('ready')
  return { client, availability }
}

test('a Cluster of which one master was away is greeted again: it does not say another time that it is ready', async () => {
  const { availability, client } = await connected(new Error('Connection is closed.'))
  await until(() => availability.up, 'the store to be up')
  // What was under way to a master that is gone may come later than a reader thinks.
  client.emit('-node')
  expect(availability.connectionsEnded).toBe(1)
})

test('a store that falls again soon after its return is down since then', async () => {
  const { availability, client } = await connected(new Error('LOADING'))
  for (let falls = 1; falls <= 2; falls += 1) {
    await until(() => availability.up, 'the store to be up')
    const upAtMs = performance.now()
    client.emit('close')
    expect(availability.outage?.sinceMs).toBeGreaterThanOrEqual(upAtMs)
    client.emit('ready')
  }
})

// To end a connection that is being made ended the client permanently, where a Sentinel was asked for the master.
test('a replica is left for its master, unless the connection to it has ended by then', async () => {
  const replica = Object.assign(new Error('READONLY no writes'), { name: 'ReplyError' })
  const [left, ended] = [await connected(replica), await connected(replica)]
  await pause(0)
  ended.client.emit('close')
  await until(
    () => left.client.disconnect.mock.calls.length > 0,
    'the replica to be left',
  )
  await pause(50)
  expect(ended.client.disconnect).not.toHaveBeenCalled()
})
