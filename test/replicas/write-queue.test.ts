import { expect, onTestFinished, test } from 'vitest'
import { systemTimers } from '../../src/clock.ts'
import { WriteQueue } from '../../src/memory/write-queue.ts'
import { deferred } from '../support/clients/quotes.ts'
import { pause, until } from '../support/gateways/between.ts'

/** A queue to a store that a test plays: it has what is in `stored`, and was sent what is in `sent`. */
function stage({ maxSize = 100, gate }: { maxSize?: number; gate?: () => boolean } = {}) {
  const sent: string[] = []
  const stored: string[] = []
  const refused = new Set<string>()
  const played = {
    takes: (_item: string): boolean | Promise<boolean> => true,
    dropped: 0,
  }
  const queue = new WriteQueue<string>({
    timers: systemTimers,
    maxSize,
    maxInFlight: 3,
    retryAfterMs: 10,
    ...(gate === undefined ? {} : { isUp: gate }),
    async send(item) {
      sent.push(item)
      const isTaken = !refused.has(item) && (await played.takes(item))
      if (isTaken) stored.push(item)
      return isTaken
    },
    dropped: () => {
      played.dropped += 1
    },
  })
  onTestFinished(() => queue.close())
  return { queue, sent, stored, refused, played }
}

test('what is put while the store is away is sent in its order once it is up, and no caller waits for it', async () => {
  let isUp = false
  const { queue, sent, stored } = stage({ gate: () => isUp })
  for (const item of ['a', 'b', 'c', 'd', 'e']) await queue.put(item)
  await pause(30)
  expect([sent, queue.length]).toEqual([[], 5])
  isUp = true
  await until(() => stored.length === 5, 'all of them')
  expect(stored).toEqual(['a', 'b', 'c', 'd', 'e'])
})

test('a full queue drops the oldest, and says so', async () => {
  let isUp = false
  const { queue, stored, played } = stage({ maxSize: 3, gate: () => isUp })
  for (const item of ['a', 'b', 'c', 'd', 'e']) void queue.put(item)
  expect(played.dropped).toBe(2)
  isUp = true
  await until(() => stored.length === 3, 'the others')
  expect(stored).toEqual(['c', 'd', 'e'])
})

test('after a failure one is sent alone, and the others once it was taken', async () => {
  const { queue, sent, stored, played } = stage()
  played.takes = () => false
  for (const item of ['a', 'b', 'c']) await queue.put(item)
  sent.length = 0
  const answer = deferred<boolean>()
  played.takes = () => answer.promise
  await until(() => sent.length > 0, 'another try')
  await pause(50)
  expect(sent).toEqual(['a'])
  answer.resolve(true)
  await until(() => stored.length === 3, 'all of them')
  expect(sent).toEqual(['a', 'b', 'c'])
})

test('what is sent and not answered is not sent again', async () => {
  const { queue, sent, played } = stage()
  const answer = deferred<boolean>()
  played.takes = () => answer.promise
  const put = queue.put('a')
  await pause(50)
  expect(sent).toEqual(['a'])
  answer.resolve(true)
  await put
  expect([queue.length, queue.inFlight]).toEqual([0, 0])
})

test('one that the store will not have holds up no other', async () => {
  const { queue, stored, refused } = stage()
  refused.add('bad')
  await queue.put('bad')
  await queue.put('a')
  expect(stored).toEqual(['a'])
  await until(() => queue.length === 1, 'the bad one to wait again')
  await queue.put('b')
  expect(stored).toEqual(['a', 'b'])
})
