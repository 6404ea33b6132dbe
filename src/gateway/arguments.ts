import { isPlainObject, kindOf } from '../process/arguments.ts'
import type { GatewaySettings } from './settings.ts'
import type { GatewayOverrides } from './types.ts'

/** What each override must have, and what it may have. Declarations say the same, but not every caller is compiled. */
const methods = {
  clock: { required: ['nowMs'], optional: ['steadyMs'] },
  logger: { required: ['debug', 'info', 'warn', 'error'], optional: ['isLevelEnabled'] },
  rateLimiter: { required: ['take'], optional: [] },
} as const
const names = Object.keys(methods) as (keyof typeof methods)[]

/** Throws a TypeError that says what is expected. Otherwise the mistake would fail later, far from this call. */
export function checkArguments(
  settings: GatewaySettings,
  overrides: GatewayOverrides,
): void {
  const example = "such as { SWAP_BASE_URL: 'https://swap.example.com' }"
  const named = 'settings must be an object with the names of docs/settings.md'
  must(isPlainObject(settings), `${named}, ${example}, not ${kindOf(settings)}`)
  const bag = 'overrides must be an object, such as { logger: console }'
  must(isPlainObject(overrides), `${bag}, not ${kindOf(overrides)}`)
  // `limits` is for the tests of quotegate, and not documented.
  const known: ReadonlySet<string> = new Set([...names, 'limits'])
  const those = `the overrides are ${names.join(', ')}. Settings are the first argument.`
  for (const name of Object.keys(overrides))
    must(known.has(name), `unknown override ${name}: ${those}`)
  for (const name of names)
    if (overrides[name] !== undefined) checkMethods(name, overrides[name])
  if (overrides.rateLimiter === undefined) return
  const perMinute: unknown = overrides.rateLimiter.perMinute
  const given = typeof perMinute === 'object' ? kindOf(perMinute) : String(perMinute)
  const isRate = typeof perMinute === 'number' && perMinute > 0
  must(isRate, `rateLimiter.perMinute must be a number above 0, not ${given}`)
}

function checkMethods(name: keyof typeof methods, override: unknown): void {
  const { required, optional } = methods[name]
  const expected = `${name} must be an object with ${required.map((method) => `${method}()`).join(', ')}`
  // A function may have methods too, such as a callable logger.
  const mayHave = override !== null && ['object', 'function'].includes(typeof override)
  must(mayHave, `${expected}, not ${kindOf(override)}`)
  const given = override as Record<string, unknown>
  const isMethod = (method: string) => typeof given[method] === 'function'
  for (const method of required)
    must(isMethod(method), `${expected}; its ${method} is ${kindOf(given[method])}`)
  for (const method of optional) {
    const isFit = given[method] === undefined || isMethod(method)
    must(
      isFit,
      `${name}.${method} must be a function or absent; it is ${kindOf(given[method])}`,
    )
  }
}

function must(holds: boolean, expected: string): void {
  if (!holds) throw new TypeError(`createGateway: ${expected}`)
}
