import { z } from 'zod'
import type { Clock } from '../clock.ts'
import { isPlainObject } from '../process/arguments.ts'
import { SandboxError } from './answer.ts'
import type { SandboxFaults } from './faults.ts'

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

const object = (example: string) => z.custom<object>(isPlainObject, `an object such as ${example}`)
const wholePort = 'a whole number from 0 to 65535'
const someRequests = 'a number of 0 or more'

const schema = z
  .strictObject({
    host: z.string('an address such as 127.0.0.1'),
    port: z.int(wholePort).min(0, wholePort).max(65_535, wholePort),
    clock: z.custom<Clock>(
      (value) => typeof (value as Partial<Clock> | null)?.nowMs === 'function',
      'an object with nowMs()',
    ),
    quoteLifetimeMs: z.number('a number'),
    faults: object('{ latencyMs: 100 }'),
    prices: object('{ ETH_USDC: 2900 }'),
    random: z.custom<() => number>((value) => typeof value === 'function', 'a function'),
    // With a negative limit the array would be emptied endlessly; with NaN it would only grow.
    recordRequests: z.number(someRequests).min(0, someRequests),
    unref: z.boolean('true or false'),
  } satisfies Record<keyof SandboxOptions, z.ZodType>)
  .partial()

/** Throws a SandboxError that says which option is wrong and what is expected. An option that is undefined is not set. */
export function checkOptions(options: SandboxOptions): void {
  if (!isPlainObject(options))
    throw new SandboxError('startSandbox: options must be an object such as { quoteLifetimeMs: 50 }')
  const [issue] = schema.safeParse(options).error?.issues ?? []
  if (issue?.code === 'unrecognized_keys') {
    const names = Object.keys(schema.shape).join(', ')
    throw new SandboxError(`startSandbox: unknown option ${issue.keys[0]}: the options are ${names}`)
  }
  if (issue !== undefined)
    throw new SandboxError(`startSandbox: ${issue.path.join('.')} must be ${issue.message}`)
}
