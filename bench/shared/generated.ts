/** Replaces the generated part of a page whose prose is written by hand. */
export function replaceGenerated(page: string, generated: string, command = 'npm run simulate'): string {
  const beginMark = `<!-- Between these two marks: written by "${command}". -->`
  const endMark = `<!-- End of what "${command}" writes. -->`
  const begin = page.indexOf(beginMark)
  const end = page.indexOf(endMark)
  if (begin === -1 || end < begin) throw new Error(`the page has no part to replace: it needs ${beginMark}`)
  return `${page.slice(0, begin + beginMark.length)}\n\n${generated}\n${page.slice(end)}`
}

/** Numbers to the right, the first column to the left. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const rule = head.map((_title, index) => (index === 0 ? '---' : '---:'))
  return [head, rule, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

export function count(value: number): string {
  return String(Math.round(value)).replaceAll(/\B(?=(\d{3})+$)/g, ',')
}
