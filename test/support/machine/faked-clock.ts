import type { Clock } from '../../../src/clock.ts'

/** Asks Node each time, so that it follows the fake timers of a test. */
export const fakedClock = {
  nowMs: () => Date.now(),
  steadyMs: () => performance.now(),
  timers: {
    steadyMs: () => performance.now(),
    setTimeout: (onTime, ms) => setTimeout(onTime, ms),
    setInterval: (onTime, ms) => setInterval(onTime, ms),
    clear: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
  },
} satisfies Clock
