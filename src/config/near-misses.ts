import { isSettingName, type SettingName, settingNames } from './settings.ts'

function withoutSeparators(name: string): string {
  return name.toUpperCase().replace(/[^A-Z0-9]/g, '')
}

/**
 * Whether so few edits make the one of the other (Damerau-Levenshtein: a swap of neighbours is one edit, no
 * substring is edited twice).
 */
export function isWithinEdits(left: string, right: string, most: number): boolean {
  if (Math.abs(left.length - right.length) > most) return false
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
    // No later row has less, and most names are told apart by their first letters.
    if (Math.min(...current) > most) return false
    beforeLast = last
    last = current
  }
  return (last[right.length] ?? 0) <= most
}

// HOST and PORT are one letter from too much that is not ours.
function allowedEdits(length: number): number {
  if (length >= 10) return 2
  return length >= 7 ? 1 : 0
}

// Once, and not for every variable of an environment: a pod may have hundreds.
const bareNames = settingNames.map((name) => ({ name, bare: withoutSeparators(name) }))

/** The setting that `name` was probably meant to be, if it is none itself. */
export function nearMiss(name: string, value: string): SettingName | undefined {
  if (isSettingName(name)) return undefined
  // What Kubernetes and container links set in every pod beside a service that is named quotegate.
  if (/^(tcp|udp|sctp):\/\//.test(value)) return undefined
  const written = withoutSeparators(name)
  const spellings = new Set([written, written.replace(/^QUOTEGATE/, '')])
  const same = bareNames.find(({ bare }) => spellings.has(bare))
  if (same !== undefined) return same.name
  const isNear = (bare: string) =>
    [...spellings].some((spelling) => isWithinEdits(spelling, bare, allowedEdits(bare.length)))
  return bareNames.find(({ bare }) => isNear(bare))?.name
}
