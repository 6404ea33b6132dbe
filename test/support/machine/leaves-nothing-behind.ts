import { afterAll, beforeAll, expect, vi } from 'vitest'
import { environment } from './environment.ts'

/** Those of the process whose listeners change what happens to it. */
const events = [
  'SIGTERM',
  'SIGINT',
  'SIGHUP',
  'warning',
  'uncaughtException',
  'unhandledRejection',
]

// For each test file that shares its process with others: what one of them leaves behind, the next would meet.
let before: ReturnType<typeof stateOfProcess>

beforeAll(() => {
  before = stateOfProcess()
})

afterAll(() =>
  expect(stateOfProcess(), 'what this file left behind in its process').toEqual(before),
)

function stateOfProcess() {
  return {
    folder: process.cwd(),
    environment: { ...environment() },
    listeners: events.map((name) => [name, process.listenerCount(name)]),
    fakeTimers: vi.isFakeTimers(),
  }
}
