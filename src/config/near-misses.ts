import { displayText } from './display.ts'
import { goneSettings } from './gone-settings.ts'
import type { SettingProblem } from './parse.ts'
import { isSettingName, type SettingName, settingNames } from './settings.ts'

function withoutSeparators(name: string): string {
  return name.toUpperCase().replace(/[^A-Z0-9]/g, '')
}

/**
 * Whether at most `maxEdits` edits turn `left` into `right`. The distance is Damerau-Levenshtein's, in which a swap of
 * neighbours is one edit, without editing a substring twice.
 */
export function isWithinEdits(left: string, right: string, maxEdits: number): boolean {
  if (Math.abs(left.length - right.length) > maxEdits) return false
  let beforeLast: number[] = []
  let last = Array.from({ length: right.length + 1 }, (_, column) => column)
  for (let row = 1; row <= left.length; row++) {
    const current = [row]
    for (let column = 1; column <= right.length; column++) {
      const cost = left[row - 1] === right[column - 1] ? 0 : 1
      let distance = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + cost,
      )
      const isSwap =
        row > 1 && column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]
      if (isSwap) distance = Math.min(distance, (beforeLast[column - 2] ?? 0) + 1)
      current.push(distance)
    }
    // The smallest distance of a row never falls in later rows, and most names differ within their first letters.
    if (Math.min(...current) > maxEdits) return false
    beforeLast = last
    last = current
  }
  return (last[right.length] ?? 0) <= maxEdits
}

// Short names get no edits: POST, HOSTS and SORT are not misspelt settings.
function allowedEdits(length: number): number {
  if (length >= 10) return 2
  return length >= 7 ? 1 : 0
}

// Made once, not for each environment variable: a pod may have hundreds.
const bareNames = settingNames.map((name) => ({ name, bare: withoutSeparators(name) }))

/** Names that other programs have for a setting, too different from its own to be found by edits. */
export const otherNames = {
  REDIS_URL: 'VALKEY_URL',
  SWAP_URL: 'SWAP_BASE_URL',
  PAYMENTS_URL: 'PAYMENTS_BASE_URL',
  TRUST_PROXIES: 'TRUST_PROXY',
  RATE_LIMIT_PER_MIN: 'RATE_LIMIT_PER_MINUTE',
  UPSTREAM_TIMEOUT_MS: 'UPSTREAM_TOTAL_TIMEOUT_MS',
} as const satisfies Record<string, SettingName>

const settingByOtherName: ReadonlyMap<string, SettingName> = new Map(
  Object.entries(otherNames).map(([other, name]) => [withoutSeparators(other), name]),
)

function byOtherName(name: string): SettingName | undefined {
  return settingByOtherName.get(withoutSeparators(name).replace(/^QUOTEGATE/, ''))
}

/** The setting that `name` was probably meant to be, if `name` is not a setting. */
export function nearMiss(name: string, value: string): SettingName | undefined {
  if (isSettingName(name) || Object.hasOwn(goneSettings, name)) return undefined
  // Kubernetes and container links set QUOTEGATE_PORT=tcp://… in every pod beside a service named quotegate.
  if (/^(tcp|udp|sctp):\/\//.test(value)) return undefined
  const written = withoutSeparators(name)
  const spellings = new Set([written, written.replace(/^QUOTEGATE/, '')])
  const same = bareNames.find(({ bare }) => spellings.has(bare))
  if (same !== undefined) return same.name
  const other = byOtherName(name)
  if (other !== undefined) return other
  const isNear = (bare: string) =>
    [...spellings].some((spelling) => isWithinEdits(spelling, bare, allowedEdits(bare.length)))
  return bareNames.find(({ bare }) => isNear(bare))?.name
}

export function nearMissProblems(texts: ReadonlyMap<string, string>): Required<SettingProblem>[] {
  return [...texts].flatMap(([name, text]) => {
    const meant = nearMiss(name, text)
    if (meant === undefined) return []
    // Beside VALKEY_URL, a REDIS_URL is another program's.
    if (byOtherName(name) !== undefined && texts.has(meant)) return []
    const shownName = displayText(name)
    const message = `${shownName} is not a setting. Did you mean ${meant}?`
    // The value is not shown: the variable may belong to another program.
    return [{ name: shownName, value: '****', expected: meant, message }]
  })
}
