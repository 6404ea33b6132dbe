import { isPlainObject, kindOf } from '../process/arguments.ts'
import type { GatewayOverrides, GatewaySettings } from './types.ts'

const overrideNames = ['clock', 'logger', 'rateLimiter'] as const

/** What each override must have. Declarations say the same, but not every caller is compiled. */
const methods = {
  clock: { required: ['nowMs'], optional: ['steadyMs'] },
  logger: { required: ['debug', 'info', 'warn', 'error'], optional: ['isLevelEnabled'] },
  rateLimiter: { required: ['take'], optional: [] },
} as const satisfies Record<(typeof overrideNames)[number], unknown>

/** Throws a TypeError that says what is expected, in place of a failure later on that says nothing of the call. */
export function checkArguments(settings: GatewaySettings, overrides: GatewayOverrides): void {
  if (!isPlainObject(settings))
    throw wrong(
      'settings must be an object with the names of docs/settings.md',
      "{ SWAP_BASE_URL: 'https://swap.example.com' }",
      settings,
    )
  if (!isPlainObject(overrides)) throw wrong('overrides must be an object', '{ logger: console }', overrides)
  // `limits` is for the tests of quotegate, and not documented.
  const known: ReadonlySet<string> = new Set([...overrideNames, 'limits'])
  for (const name of Object.keys(overrides))
    if (!known.has(name))
      throw new TypeError(
        `createGateway: unknown override ${name}: the overrides are ${overrideNames.join(', ')}. Settings are the ` +
          'first argument.',
      )
  for (const name of overrideNames) checkMethods(name, overrides[name])
  const perMinute: unknown = overrides.rateLimiter?.perMinute
  if (overrides.rateLimiter !== undefined && !(typeof perMinute === 'number' && perMinute > 0))
    throw new TypeError(
      'createGateway: rateLimiter.perMinute must be a number above 0, not ' +
        `${typeof perMinute === 'object' ? kindOf(perMinute) : String(perMinute)}`,
    )
}

function checkMethods(name: (typeof overrideNames)[number], override: unknown): void {
  if (override === undefined) return
  const { required, optional } = methods[name]
  const expected = `${name} must be an object with ${required.map((method) => `${method}()`).join(', ')}`
  // A function may have them too, such as a logger that can itself be called.
  if (override === null || !['object', 'function'].includes(typeof override))
    throw new TypeError(`createGateway: ${expected}, not ${kindOf(override)}`)
  const given = override as Record<string, unknown>
  for (const method of required)
    if (typeof given[method] !== 'function')
      throw new TypeError(`createGateway: ${expected}; its ${method} is ${kindOf(given[method])}`)
  for (const method of optional)
    if (given[method] !== undefined && typeof given[method] !== 'function')
      throw new TypeError(
        `createGateway: ${name}.${method} must be a function or absent; it is ${kindOf(given[method])}`,
      )
}

function wrong(expected: string, example: string, value: unknown): TypeError {
  return new TypeError(`createGateway: ${expected}, such as ${example}, not ${kindOf(value)}`)
}
