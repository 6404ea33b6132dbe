import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { systemTimers } from '../../src/clock.ts'
import { SlowReaders } from '../../src/upstream/slow-readers.ts'

class HeldUp extends EventEmitter {
  destroyed = false
  writableNeedDrain = true
  readonly req = { method: 'POST' }
  destroy(): void {
    this.destroyed = true
    this.emit('close')
  }
}

// Such a client held a connection to the upstream for as long as it kept its own open.
test('a client that takes no byte for stallMs is cut, one that takes some now and then is not', () => {
  let look = () => {}
  let isOver = false
  const timers = {
    ...systemTimers,
    setInterval: (onTime: () => void) => {
      look = onTime
      return {
        refresh() {},
        unref: () => ({ refresh() {}, unref: () => systemTimers.setTimeout(() => {}, 0) }),
      }
    },
    clear: () => {
      isOver = true
    },
  }
  const readers = new SlowReaders({ max: 1, stallMs: 30_000 }, () => false, timers)
  const [stalled, slow] = [new HeldUp(), new HeldUp()]
  const heldUp = (one: HeldUp) => readers.heldUp(one as unknown as ServerResponse, 1, () => {})
  heldUp(stalled)
  heldUp(slow)
  // The first look may come at once, and then one every 1.5 s.
  for (let looks = 0; looks <= 20; looks += 1) {
    expect([stalled.destroyed, slow.destroyed]).toEqual([false, false])
    if (looks % 3 === 0) heldUp(slow)
    look()
  }
  expect([stalled.destroyed, slow.destroyed]).toEqual([true, false])
  slow.destroy()
  look()
  expect(isOver).toBe(true)
})
