const textOf: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
}
const escaped = (text: string) => text.replace(/[&<>"]/g, (found) => textOf[found] ?? '')

/** GitHub's anchor of a heading, so one link fits both. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M} _-]/gu, '')
    .replaceAll(' ', '-')

const fence = /^```/
const heading = /^(#{1,6}) (.+)$/
/** Further lines of an item are indented by as much. */
const marker = /^(?:(-)|\d+\.) +/
const tableLine = /^\|(.*)\|$/

/**
 * Reads the Markdown of the runbook: headings, paragraphs, lists, tables, code, links, emphasis. Its text never becomes
 * markup. `base`: the runbook on the internet, for links to other documents.
 */
export function runbookPage(markdown: string, base: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="dark light">
<title>Runbook · quotegate</title>
<link rel="icon" href="icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="base.css">
<link rel="stylesheet" href="runbook.css">
</head>
<body>
<header class="bar"><a href="./">Console</a></header>
<main>
${blocks(markdown.split('\n'), base)}</main>
</body>
</html>
`
}

function blocks(lines: readonly string[], base: string): string {
  let html = ''
  let at = 0
  const take = (holds: (line: string) => boolean) => {
    const begin = at
    while (at < lines.length && holds(lines[at] ?? '')) at += 1
    return lines.slice(begin, at)
  }
  const rest = () => lines[at] ?? ''
  while (at < lines.length) {
    const [, signs, title] = heading.exec(rest()) ?? []
    if (rest().trim() === '') at += 1
    else if (signs !== undefined && title !== undefined) {
      at += 1
      const name = `h${signs.length}`
      html += `<${name} id="${anchorOf(title)}">${inline(title, base)}</${name}>\n`
    } else if (fence.test(rest())) {
      at += 1
      const code = take((line) => !fence.test(line))
      at += 1
      html += `<pre><code>${escaped(code.join('\n'))}</code></pre>\n`
    } else if (tableLine.test(rest())) {
      html += table(
        take((line) => tableLine.test(line)),
        base,
      )
    } else if (marker.test(rest())) {
      const name = marker.exec(rest())?.[1] === '-' ? 'ul' : 'ol'
      html += `<${name}>\n`
      while (marker.test(rest())) {
        const [mark = ''] = marker.exec(rest()) ?? []
        const first = rest().slice(mark.length)
        at += 1
        const indent = ' '.repeat(mark.length)
        const further = take((line) => line.startsWith(indent))
        const item = [first, ...further.map((line) => line.slice(mark.length))]
        html += `<li>${blocks(item, base)}</li>\n`
      }
      html += `</${name}>\n`
    } else {
      const begin = at
      const text = take((line) => line.trim() !== '' && (at === begin || !begins(line)))
      html += `<p>${inline(text.join('\n'), base)}</p>\n`
    }
  }
  return html
}

/** Whether a line ends the paragraph before it. */
const begins = (line: string) =>
  [fence, heading, marker, tableLine].some((block) => block.test(line))

function table(lines: readonly string[], base: string): string {
  const [head = [], , ...rows] = lines.map((line) =>
    (tableLine.exec(line)?.[1] ?? '').split(/(?<!\\)\|/).map((cell) => cell.trim()),
  )
  const row = (name: string, cells: readonly string[]) =>
    `<tr>${cells.map((cell) => `<${name}>${inline(cell, base)}</${name}>`).join('')}</tr>\n`
  return `<table>\n${row('th', head)}${rows.map((cells) => row('td', cells)).join('')}</table>\n`
}

const phrase =
  /`([^`]+)`|\*\*(.+?)\*\*|\*([^*]+)\*|\[((?:[^\]`]|`[^`]*`)+)\]\(([^)\s]+)\)/s

function inline(text: string, base: string): string {
  const found = phrase.exec(text)
  if (found === null) return escaped(text)
  const [whole, code, strong, emphasis, name = '', target = ''] = found
  const before = escaped(text.slice(0, found.index))
  const after = inline(text.slice(found.index + whole.length), base)
  return `${before}${marked()}${after}`

  function marked(): string {
    if (code !== undefined) return `<code>${escaped(code)}</code>`
    if (strong !== undefined) return `<strong>${inline(strong, base)}</strong>`
    if (emphasis !== undefined) return `<em>${inline(emphasis, base)}</em>`
    if (target.startsWith('#'))
      return `<a href="${escaped(target)}">${inline(name, base)}</a>`
    const href = escaped(new URL(target, base).href)
    return `<a href="${href}" target="_blank" rel="noopener noreferrer">${inline(name, base)}</a>`
  }
}
