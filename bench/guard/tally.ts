import type { Ordered } from './market.ts'

/** What became of one order, under the names by which the tables group it. */
export interface Outcome extends Ordered {
  names: Readonly<Record<string, string>>
}

/** In the order in which they come first, outcomes that have the same value under these names. */
function grouped(outcomes: readonly Outcome[], names: readonly string[]): Map<string, Outcome[]> {
  const groups = new Map<string, Outcome[]>()
  for (const outcome of outcomes) {
    const key = names.map((name) => outcome.names[name]).join(' | ')
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [outcome])
    else group.push(outcome)
  }
  return groups
}

/** A row for each combination of the first names, a column for each value of the last. */
export function crossTable(outcomes: readonly Outcome[], rows: readonly string[], column: string): string {
  const columns = [...grouped(outcomes, [column]).keys()]
  const lines = [...grouped(outcomes, rows)].map(([row, ofRow]) => {
    const cells = grouped(ofRow, [column])
    const texts = columns.map((name) => cellOf(cells.get(name) ?? []))
    return [row, ...texts]
  })
  return table([...rows, ...columns], lines)
}

/** Live orders that were refused; late ones that were sent, and of those how many would have been paid less than they state. */
function cellOf(outcomes: readonly Outcome[]): string {
  const live = outcomes.filter(({ isLate }) => !isLate)
  const late = outcomes.filter(({ isLate }) => isLate)
  const refused = live.filter(({ isSent }) => !isSent)
  const sent = late.filter(({ isSent }) => isSent)
  const paidLess = sent.filter(({ lessBy }) => lessBy > 0)
  const paidMuchLess = sent.filter(({ lessBy }) => lessBy > 0.001)
  const ofLive = live.length > 0 ? [`${refused.length}/${live.length}`] : []
  const ofLate =
    late.length > 0 ? [`${sent.length}/${late.length} (${paidLess.length}, ${paidMuchLess.length})`] : []
  return [...ofLive, ...ofLate].join(' · ')
}

export function table(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const texts = [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |\n`)
  return texts.join('')
}
