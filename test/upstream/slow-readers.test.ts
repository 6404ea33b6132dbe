import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { systemTimers } from '../../src/clock.ts'
import { SlowReaders } from '../../src/upstream/slow-readers.ts'

class HeldUp extends EventEmitter {
  destroyed = false
  writableNeedDrain = true
  readonly headersSent = true
  /** Of an HTTP/1.0 caller, to which the end of the connection is the end of the answer. */
  wasReset = false
  readonly req
  constructor(method: string) {
    super()
    const resetAndDestroy = () => {
      this.wasReset = true
    }
    this.req = { method, httpVersionMinor: 0, socket: { resetAndDestroy } }
  }
  destroy(): void {
    this.destroyed = true
    this.emit('close')
  }
}

/** Readers of which one may stay slow, and the looks at them. */
function stage(othersWait: boolean) {
  const seen = { look: () => {}, isOver: false }
  const timers = {
    ...systemTimers,
    setInterval: (onTime: () => void) => {
      seen.look = onTime
      return {
        refresh() {},
        unref: () => ({
          refresh() {},
          unref: () => systemTimers.setTimeout(() => {}, 0),
        }),
      }
    },
    clear: () => {
      seen.isOver = true
    },
  }
  const readers = new SlowReaders({ max: 1, stallMs: 30_000 }, () => othersWait, timers)
  const heldUp = (one: HeldUp, bytes = 1) =>
    readers.heldUp(one as unknown as ServerResponse, bytes, () => {})
  return { seen, heldUp }
}

// Such a caller held a connection to the upstream for as long as it kept its own open.
test('a caller that takes no byte for stallMs is cut, one that takes some now and then is not', () => {
  const { seen, heldUp } = stage(false)
  const [stalled, slow] = [new HeldUp('POST'), new HeldUp('POST')]
  heldUp(stalled)
  heldUp(slow)
  // The first look may come at once, and then four a second.
  for (let looks = 0; looks <= 120; looks += 1) {
    expect([stalled.destroyed, slow.destroyed]).toEqual([false, false])
    if (looks % 99 === 0) heldUp(slow)
    seen.look()
  }
  expect([stalled.destroyed, slow.destroyed, stalled.wasReset]).toEqual([
    true,
    false,
    true,
  ])
  slow.destroy()
  seen.look()
  expect(seen.isOver).toBe(true)
})

test('while others wait, those that read a GET at less than 64 KiB a second for longest are cut, until as many as may stay are left', () => {
  for (const othersWait of [true, false]) {
    const { seen, heldUp } = stage(othersWait)
    const all = [...Array(3).fill('GET'), 'POST', 'GET', 'GET'].map(
      (method) => new HeldUp(method),
    )
    for (const one of all) heldUp(one)
    // A piece of 64 KiB lasts for a second.
    for (let looks = 0; looks < 4; looks += 1) seen.look()
    expect(all.some(({ destroyed }) => destroyed)).toBe(false)
    // In the next quarter of a second the fourth GET took just enough, the last one byte less.
    all.slice(4).forEach((one, index) => void heldUp(one, 16_384 - index))
    seen.look()
    const isCut = othersWait
      ? [true, true, true, false, false, false]
      : Array(6).fill(false)
    expect(all.map(({ destroyed }) => destroyed)).toEqual(isCut)
    expect(all.map(({ wasReset }) => wasReset)).toEqual(isCut)
  }
})
