import { expect, onTestFinished, test, vi } from 'vitest'
import { createLogOutput } from '../../src/process/log-output.ts'

/** An output whose disk is full or not, as the test says; it takes at most this many bytes at once. */
function createOutput(takesAtOnce = Number.POSITIVE_INFINITY) {
  const state = { fault: undefined as string | undefined, text: '', calls: 0, lost: 0 }
  const { write } = createLogOutput({
    fd: 1,
    onLost: (lines) => {
      state.lost += lines
    },
    writeBytes(_fd, bytes) {
      state.calls += 1
      if (state.fault !== undefined)
        throw Object.assign(new Error(state.fault), { code: state.fault })
      const taken = bytes.subarray(0, takesAtOnce)
      state.text += taken.toString()
      return taken.length
    },
  })
  return { write, state }
}

test('lines that had to wait are written whole and in order once there is room', async () => {
  const { write, state } = createOutput(3)
  write('first\n')
  state.fault = 'ENOSPC'
  write('second\n')
  write('third\n')
  expect(state.text).toBe('first\n')
  state.fault = undefined
  await vi.waitFor(() => expect(state.text).toBe('first\nsecond\nthird\n'), 10_000)
  expect(state.lost).toBe(0)
})

test('while it cannot write it keeps 1 MiB, counts the lines lost beyond that, and logs the count', async () => {
  const { write, state } = createOutput()
  state.fault = 'EAGAIN'
  for (let count = 0; count < 1_500; count += 1) write(`${'a'.repeat(1_023)}\n`)
  state.fault = undefined
  await vi.waitFor(() => expect(state.lost).toBe(476), 10_000)
  expect(state.text.length).toBe(1_048_576)
})

test.each([
  ['ENOSPC', true],
  // A reader that has gone does not come back.
  ['EPIPE', false],
])(
  'after %s it does not try again for every line, but a little later: %s',
  (fault, triesAgain) => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const { write, state } = createOutput()
    state.fault = fault
    for (let count = 0; count < 1_000; count += 1) write('line\n')
    expect(state.calls).toBe(1)
    state.fault = undefined
    vi.advanceTimersByTime(250)
    expect(state.text !== '').toBe(triesAgain)
  },
)
