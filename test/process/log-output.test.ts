import { expect, test, vi } from 'vitest'
import { createLogOutput } from '../../src/process/log-output.ts'

function failing(code: string): Error {
  return Object.assign(new Error(code), { code })
}

/** An output whose disk is full or not, as the test says; it takes at most this many bytes at once. */
function createOutput(takesAtOnce = Number.POSITIVE_INFINITY) {
  const state = { fault: undefined as string | undefined, text: '', calls: 0, lost: 0 }
  const output = createLogOutput({
    fd: 1,
    onLost: (lines) => {
      state.lost += lines
    },
    writeBytes(_fd, bytes) {
      state.calls += 1
      if (state.fault !== undefined) throw failing(state.fault)
      const taken = bytes.subarray(0, takesAtOnce)
      state.text += taken.toString()
      return taken.length
    },
  })
  return { output, state }
}

test('lines that had to wait are written whole and in order once there is room', async () => {
  const { output, state } = createOutput(3)
  output.write('first\n')
  state.fault = 'ENOSPC'
  output.write('second\n')
  output.write('third\n')
  expect(state.text).toBe('first\n')
  state.fault = undefined
  await vi.waitFor(() => expect(state.text).toBe('first\nsecond\nthird\n'), 10_000)
  expect(state.lost).toBe(0)
})

test('while it cannot write it keeps 1 MiB, counts the lines lost beyond that, and logs the count', async () => {
  const { output, state } = createOutput()
  state.fault = 'EAGAIN'
  const line = `${'a'.repeat(1_023)}\n`
  for (let count = 0; count < 1_500; count += 1) output.write(line)
  state.fault = undefined
  await vi.waitFor(() => expect(state.lost).toBe(476), 10_000)
  expect(state.text.length).toBe(1_048_576)
})

test('does not try a full disk again for every line', () => {
  const { output, state } = createOutput()
  state.fault = 'ENOSPC'
  for (let count = 0; count < 1_000; count += 1) output.write('line\n')
  expect(state.calls).toBe(1)
})

test('writes nothing more once its reader has gone', () => {
  const { output, state } = createOutput()
  state.fault = 'EPIPE'
  for (let count = 0; count < 10; count += 1) output.write('line\n')
  expect(state.calls).toBe(1)
})
