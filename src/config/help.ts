import { leavesRoom, memoryLimits } from '../process/memory.ts'
import type { LoadedConfig } from './load.ts'
import {
  factsOf,
  fixedDefault,
  type SettingName,
  settingGroups,
  settingNames,
} from './settings.ts'

/** In 100 columns. Breaks at blanks, and after commas because the default of PAYMENTS_PATHS is longer than a line. */
function helpRow(name: SettingName): string {
  const { meaning, defaultText = fixedDefault(name) ?? 'none' } = factsOf(name)
  const lines = `${meaning} Default: ${defaultText}`.match(/.{1,68}(?:(?<=,)| |$)/g) ?? []
  const nextLine = `\n${' '.repeat(32)}`
  return `  ${name}`.padEnd(32) + lines.map((line) => line.trim()).join(nextLine)
}

/** For --help: the settings that a team sets, or every one, with meaning and default. */
export function helpText(which: 'team' | 'all'): string {
  const groups = settingGroups.flatMap(({ title, names }) => {
    const rows = names
      .filter((name) => which === 'all' || factsOf(name).team)
      .map(helpRow)
    return rows.length === 0 ? [] : [`${title}:\n${rows.join('\n')}`]
  })
  const head =
    'Settings (environment variables; an empty one counts as unset; NAME_FILE names a file with a secret)'
  const end =
    which === 'all' ? '' : `\n--help all lists every setting (${settingNames.length}).\n`
  return `${head}\n\n${groups.join('\n\n')}\n${end}`
}

/** For --print-config: each value in effect and where it comes from. Secrets are masked. */
export function printConfig(loaded: LoadedConfig): string {
  const lines = settingNames.map((name) => {
    const { value, source } = loaded.sources[name]
    return `${name}=${value}  (${value === '' ? `${source}: none` : source})`
  })
  return `${lines.join('\n')}\n`
}

/** What to see to before production, and whether it is done; undefined: no setting shows it. */
export const beforeProduction: [
  text: string,
  isDone: (loaded: LoadedConfig) => boolean | undefined,
][] = [
  [
    '`TRUST_PROXY` lists your proxies, and `CLIENT_IP_HEADER` is the header that they write.',
    ({ sources }) =>
      [sources.TRUST_PROXY, sources.CLIENT_IP_HEADER].every(
        ({ source }) => source !== 'default',
      ),
  ],
  [
    '`ADMIN_TOKEN` is set, or the console stays read-only.',
    ({ config }) => config.admin.token !== undefined,
  ],
  [
    '`STATE_DIRECTORY` or `VALKEY_URL` is set, so that a restart forgets no quote.',
    ({ config }) => config.state !== undefined || config.store !== undefined,
  ],
  [
    'V8 leaves the process a quarter of its memory (`node --max-old-space-size-percentage=50`).',
    () => leavesRoom(memoryLimits()),
  ],
  [
    'Your load balancer asks `/readyz` more often than `DRAIN_DELAY_MS`, and your supervisor waits longer than ' +
      'that and `DRAIN_TIMEOUT_MS` together.',
    ({ config }) => (config.drain.delayMs === 0 ? false : undefined),
  ],
  ['Prometheus scrapes `/metrics` of the operations listener.', () => undefined],
  [
    'Prometheus has `grafana/alerts.yml`, and its alerts reach the person on call.',
    () => undefined,
  ],
  [
    '`ORDER_EXPIRED_QUOTE` is `refuse`: late orders are not sent.',
    ({ config }) => config.orders.expiredQuote === 'refuse',
  ],
]

/** For --check-config in production. */
export function productionList(loaded: LoadedConfig): string {
  const mark = (isDone: boolean | undefined) =>
    isDone === undefined ? 'check' : isDone ? 'done' : 'open'
  const lines = beforeProduction.map(
    ([text, isDone]) => `  ${mark(isDone(loaded)).padEnd(7)}${text}`,
  )
  return ['Before production (check: no setting shows it):', ...lines]
    .join('\n')
    .replaceAll('`', '')
}
