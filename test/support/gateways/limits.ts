import {
  type Limits,
  limits as limitsSchema,
  testLimitsName,
} from '../../../src/config/limits.ts'

const limitNames: ReadonlySet<string> = new Set(Object.keys(limitsSchema.shape))

/**
 * Tests write limits among the settings, by their names in `Limits`, because one helper passes its settings on to the
 * next. `limits` is for the override of createGateway.
 */
export function withoutLimits<Value>(given: Readonly<Record<string, Value>>): {
  settings: Record<string, Value>
  limits: Partial<Limits>
} {
  const isLimit = ([name]: [string, unknown]) => limitNames.has(name)
  const entries = Object.entries(given)
  return {
    settings: Object.fromEntries(entries.filter((entry) => !isLimit(entry))),
    limits: Object.fromEntries(
      entries
        .filter((entry) => isLimit(entry) && entry[1] !== undefined)
        .map(([name, value]) => [name, Number(value)]),
    ),
  }
}

/** The environment of a program that is given these settings and limits. */
export function environmentWith(
  given: Readonly<Record<string, string>>,
): Record<string, string> {
  const { settings, limits } = withoutLimits(given)
  return Object.keys(limits).length === 0
    ? settings
    : { ...settings, [testLimitsName]: JSON.stringify(limits) }
}
