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
      'Name in `TRUST_PROXY` only your own backends and proxies, and in `CLIENT_IP_HEADER` the header that they write.',
      ({ sources }) =>
        openOrCheck(
          [sources.TRUST_PROXY, sources.CLIENT_IP_HEADER].every(
            ({ source }) => source !== 'default',
          ),
        ),
    ],
    [
      'Set `ADMIN_TOKEN`: without it the console is read-only and shows no requests.',
      ({ config }) => doneOrOpen(config.admin.token !== undefined),
    ],
    [
      'Set `VALKEY_URL` for several replicas, or `STATE_DIRECTORY` for one, so that a restart forgets no quote.',
      // How many replicas there are is shown by no setting.
      ({ config }) =>
        config.store !== undefined ? 'done' : openOrCheck(config.state !== undefined),
    ],
    [
      'Leave a quarter of the memory to what V8 does not count, as by `node --max-old-space-size-percentage=50` (Node 24).',
      () => doneOrOpen(leavesRoom(memoryLimits())),
    ],
    [
      'Let your load balancer ask `/readyz` more often than `DRAIN_DELAY_MS`, and your supervisor wait longer than ' +
        'that and `DRAIN_TIMEOUT_MS` together.',
      ({ config }) => openOrCheck(config.drain.delayMs > 0),
    ],
    ['Let Prometheus scrape `/metrics` of the operations port.', () => 'check'],
    [
      'Give Prometheus `grafana/alerts.yml`, and see that its alerts reach the person on call.',
      () => 'check',
    ],
    [
      'Leave `ORDER_EXPIRED_QUOTE` at `refuse`, so that late orders are not sent.',
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
