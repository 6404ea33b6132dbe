import type { Clock } from '../clock.ts'
import type { SandboxFaults } from './fault-settings.ts'
import { SandboxError } from './sandbox-error.ts'

export interface SandboxOptions {
  /** Default: 127.0.0.1. */
  host?: string
  /** Default: any free port. */
  port?: number
  /** The time; tests pass a clock that they set themselves. */
  clock?: Clock
  /** Default: 30,000. */
  quoteLifetimeMs?: number
  /** The faults to begin with. */
  faults?: Partial<SandboxFaults>
  /** Fixed prices by pair id. The price of such a pair does not move; a pair that is not listed is added. */
  prices?: Record<string, number>
  /** Numbers from 0 to 1 that decide which requests a rate applies to. Default: Math.random. */
  random?: () => number
  /** Max requests kept in `requests`. Default: 1000. */
  recordRequests?: number
  /** Lets the process end while the sandbox is open. */
  unref?: boolean
}

interface Expected {
  text: string
  fits(value: unknown): boolean
}

/** An object with members of its own, or an imported module; not a URL or a promise, which would be no options at all. */
const isObject = (value: unknown): value is object =>
  /^\[object (?:Object|Module)\]$/.test(Object.prototype.toString.call(value))

const expected: Readonly<Record<keyof SandboxOptions, Expected>> = {
  host: { text: 'an address such as 127.0.0.1', fits: (value) => typeof value === 'string' },
  port: {
    text: 'a whole number from 0 to 65535',
    fits: (value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 65_535,
  },
  clock: {
    text: 'an object with nowMs()',
    fits: (value) => typeof (value as Partial<Clock> | null)?.nowMs === 'function',
  },
  quoteLifetimeMs: { text: 'a number', fits: (value) => typeof value === 'number' },
  faults: { text: 'an object such as { latencyMs: 100 }', fits: isObject },
  prices: { text: 'an object such as { ETH_USDC: 2900 }', fits: isObject },
  random: { text: 'a function', fits: (value) => typeof value === 'function' },
  // With a negative limit the array would be emptied endlessly; with NaN it would only grow.
  recordRequests: {
    text: 'a number of 0 or more',
    fits: (value) => typeof value === 'number' && value >= 0,
  },
  unref: { text: 'true or false', fits: (value) => typeof value === 'boolean' },
}

/** Throws a SandboxError that says which option is wrong and what is expected. An option that is undefined is not set. */
export function checkOptions(options: SandboxOptions): void {
  if (!isObject(options))
    throw new SandboxError('startSandbox: options must be an object such as { quoteLifetimeMs: 50 }')
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(expected, name))
      throw new SandboxError(
        `startSandbox: unknown option ${name}: the options are ${Object.keys(expected).join(', ')}`,
      )
    const { text, fits } = expected[name as keyof SandboxOptions]
    if (value !== undefined && !fits(value)) throw new SandboxError(`startSandbox: ${name} must be ${text}`)
  }
}
