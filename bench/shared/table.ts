/** A table of Markdown whose columns are aligned, so that it can be read in a terminal and pasted into a page. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const all = [head, ...rows]
  const widths = head.map((_, column) =>
    Math.max(4, ...all.map((row) => row[column]?.length ?? 0)),
  )
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => padded(cell, widths[column] ?? 0, column)).join(' | ')} |`
  const rule = widths.map(
    (width, column) => `${'-'.repeat(width - 1)}${column === 0 ? '-' : ':'}`,
  )
  return [line(head), line(rule), ...rows.map(line)].join('\n')
}

/** Names are aligned to the left, numbers to the right. */
function padded(cell: string, width: number, column: number): string {
  return column === 0 ? cell.padEnd(width) : cell.padStart(width)
}

export function count(value: number, digits = 0): string {
  return value.toLocaleString('en', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  })
}
