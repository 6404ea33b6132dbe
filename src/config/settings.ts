import { z } from 'zod'
import { facts, type SettingFacts } from './setting-facts.ts'
import { clientAddressSettings } from './settings/client-address.ts'
import { egressSettings } from './settings/egress.ts'
import { limitSettings } from './settings/limits.ts'
import { listenerSettings } from './settings/listeners.ts'
import { logSettings } from './settings/logs.ts'
import { orderSettings } from './settings/orders.ts'
import { quoteSettings } from './settings/quotes.ts'
import { replicaSettings } from './settings/replicas.ts'
import { traceSettings } from './settings/traces.ts'
import { upstreamSettings } from './settings/upstreams.ts'

/**
 * Every setting: how it is read, its default, what it means. All texts about settings are made from this table.
 * @internal
 */
export const settings = z.object({
  ...listenerSettings,
  ...upstreamSettings,
  ...egressSettings,
  ...clientAddressSettings,
  ...quoteSettings,
  ...orderSettings,
  ...replicaSettings,
  ...limitSettings,
  ...logSettings,
  ...traceSettings,
})

/** @internal */
export type SettingValues = z.output<typeof settings>

// Without a type of its own, so that the declarations of the package list the names, and need no zod.
export const settingNames = settings.keyof().options
export type SettingName = (typeof settingNames)[number]

export interface SettingGroup {
  readonly title: string
  readonly names: readonly SettingName[]
}

/** In the order of --help and docs/settings.md. */
export const settingGroups: readonly SettingGroup[] = [
  group('Listeners', listenerSettings),
  group('Upstreams', upstreamSettings),
  group('TLS and the proxy to upstreams', egressSettings),
  group('Client address', clientAddressSettings),
  group('Quotes', quoteSettings),
  group('Orders', orderSettings),
  group('Several replicas', replicaSettings),
  group('Limits', limitSettings),
  group('Logs', logSettings),
  group('Traces', traceSettings),
]

function group(title: string, rows: object): SettingGroup {
  return { title, names: settingNames.filter((name) => Object.hasOwn(rows, name)) }
}

export function isSettingName(name: string): name is SettingName {
  return Object.hasOwn(settings.shape, name)
}

export function factsOf(name: SettingName): SettingFacts {
  const found = facts.get(settings.shape[name])
  if (found === undefined) throw new Error(`the setting ${name} has no facts`)
  return found
}

/** The default as written in the environment; undefined if there is none or it depends on other settings. */
export function fixedDefault(name: SettingName): string | undefined {
  const schema = settings.shape[name]
  return schema instanceof z.ZodPrefault ? String(schema.def.defaultValue) : undefined
}
