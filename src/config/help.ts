import { leavesRoom, memoryLimits } from '../process/memory.ts'
import type { LoadedConfig } from './load.ts'
import { factsOf, type SettingName, settingGroups, settingNames } from './settings.ts'

/** A line of at most 100 columns, with the meaning's first sentence. */
function helpRow(name: SettingName): string {
  const [first = ''] = factsOf(name).meaning.split(/(?<=\.) /)
  return `  ${name}`.padEnd(30) + first.replace(/\.$/, '')
}

/** The text of --help. */
export function helpText(): string {
  const groups = settingGroups.map(
    ({ title, names }) => `${title}:\n${names.map(helpRow).join('\n')}`,
  )
  const head =
    'Settings are environment variables; an empty one counts as unset. docs/settings.md says more.'
  return `${head}\n${groups.join('\n')}\n`
}

/** For --print-config: each value in effect and its source. Secrets are masked. */
export function printConfig(loaded: LoadedConfig): string {
  const lines = settingNames.map((name) => {
    const { value, source } = loaded.sources[name]
    return `${name}=${value}  (${value === '' ? `${source}: none` : source})`
  })
  return `${lines.join('\n')}\n`
}

type Mark = 'done' | 'open' | 'check'

/** `open` while a setting is missing, else `check`: no setting can show whether it is right. */
function openOrCheck(isSet: boolean): Mark {
  return isSet ? 'check' : 'open'
}

function doneOrOpen(isDone: boolean): Mark {
  return isDone ? 'done' : 'open'
}

/** The list before production. `check`: no setting shows whether it is done. */
export const beforeProduction: [text: string, markOf: (loaded: LoadedConfig) => Mark][] =
  [
    [
      '`TRUST_PROXY` lists your proxies and nothing else, and `CLIENT_IP_HEADER` is the header that they write.',
      ({ sources }) =>
        openOrCheck(
          [sources.TRUST_PROXY, sources.CLIENT_IP_HEADER].every(
            ({ source }) => source !== 'default',
          ),
        ),
    ],
    [
      '`ADMIN_TOKEN` is set, or the console stays read-only.',
      ({ config }) => doneOrOpen(config.admin.token !== undefined),
    ],
    [
      '`STATE_DIRECTORY` or `VALKEY_URL` is set, so that a restart forgets no quote.',
      ({ config }) =>
        doneOrOpen(config.state !== undefined || config.store !== undefined),
    ],
    [
      'V8 leaves the process a quarter of its memory (`node --max-old-space-size-percentage=50`).',
      () => doneOrOpen(leavesRoom(memoryLimits())),
    ],
    [
      'Your load balancer asks `/readyz` more often than `DRAIN_DELAY_MS`, and your supervisor waits longer than ' +
        'that and `DRAIN_TIMEOUT_MS` together.',
      ({ config }) => openOrCheck(config.drain.delayMs > 0),
    ],
    ['Prometheus scrapes `/metrics` of the operations listener.', () => 'check'],
    [
      'Prometheus has `grafana/alerts.yml`, and its alerts reach the person on call.',
      () => 'check',
    ],
    [
      '`ORDER_EXPIRED_QUOTE` is `refuse`: late orders are not sent.',
      ({ config }) => doneOrOpen(config.orders.expiredQuote === 'refuse'),
    ],
  ]

/** For --check-config. The list is for production only. */
export function checkedText(loaded: LoadedConfig): string {
  const marked = loaded.config.production
    ? beforeProduction.map(([text, markOf]) => ({ text, mark: markOf(loaded) }))
    : []
  const lines = marked.map(({ text, mark }) => `  ${mark.padEnd(7)}${text}`)
  const list = ['Before production (check: no setting shows it):', ...lines]
  const count = (mark: Mark) => marked.filter((one) => one.mark === mark).length
  const { length } = loaded.warnings
  const counts = [
    `${length === 0 ? 'No' : length} ${length === 1 ? 'warning' : 'warnings'}`,
    ...(marked.length === 0
      ? []
      : [`${count('open')} open`, `${count('check')} to check yourself`]),
  ]
  return [
    ...(marked.length === 0 ? [] : list),
    `No setting is wrong. ${counts.join(', ')}.`,
  ]
    .join('\n')
    .replaceAll('`', '')
}
