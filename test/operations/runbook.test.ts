import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { runbookPageOf } from '../../src/operations/outages.ts'
import { runbookPage } from '../../src/operations/runbook.ts'
import { sectionOf, troubleRows } from '../../src/operations/trouble-table.ts'
import { homepage } from '../../src/process/package-info.ts'
import { gatewayWith } from '../support/gateways/between.ts'
import { anchorsOf } from '../support/observing/grafana.ts'
import { ask } from './support.ts'

const markdown = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8')
const base = 'https://example.org/quotegate/blob/main/docs/runbook.md'
const bodyOf = (text: string) =>
  /<main>\n(.*)<\/main>/s.exec(runbookPage(text, base))?.[1]

/** What a browser shows of it. */
const shown = (page: string) =>
  page
    // A cell ends a word.
    .replace(/<\/t[dh]>/g, ' ')
    .replace(/<[^>]*>/g, '')
    .replace(
      /&(lt|gt|quot|amp);/g,
      (_, name) => ({ lt: '<', gt: '>', quot: '"' })[name as string] ?? '&',
    )

test('the operations port serves the runbook as a page, under any name and without the token', async () => {
  const { operationsUrl } = await gatewayWith({ ADMIN_TOKEN: 'a-token-of-some-length' })
  const headers = { Host: 'runbook.example' }
  const answer = await ask(`${operationsUrl}/runbook`, { headers })
  expect([answer.status, answer.headers['content-type']]).toEqual([
    200,
    'text/html; charset=utf-8',
  ])
  expect(answer.headers['content-security-policy']).toContain("default-src 'none'")
  expect(answer.body).toBe(runbookPage(markdown, runbookPageOf(homepage)))
  for (const [, name = ''] of answer.body.matchAll(/<link [^>]*href="([^"]+)"/g))
    expect((await ask(`${operationsUrl}/${name}`)).status, name).toBe(200)
})

test('the image has every document that the program reads', () => {
  const root = new URL('../../', import.meta.url)
  const read = readFileSync(new URL('src/operations/console-files.ts', root), 'utf8')
  const named = [...read.matchAll(/'\.\.\/(docs\/[^']+)'/g)].map(([, name]) => name)
  const [image = ''] = readFileSync(new URL('Dockerfile', root), 'utf8')
    .split('FROM ')
    .slice(-1)
  const copied = /^COPY (docs\/.+) \.\/docs\/$/m.exec(image)?.[1]?.split(' ')
  expect(copied).toEqual(named)
  expect(named).toHaveLength(2)
})

test('every word of the runbook is on its page, and no Markdown', () => {
  const page = bodyOf(markdown) ?? ''
  const words = (text: string) => text.match(/[\p{L}\p{N}]+/gu) ?? []
  const links = /(?<=\])\([^)\s]+\)/g
  const withoutNumbers = markdown.replace(/^ *(\d+\. |```.*$)/gm, '')
  expect(words(shown(page))).toEqual(words(withoutNumbers.replace(links, '')))
  const withoutCode = shown(page.replace(/<code>.*?<\/code>/gs, ''))
  expect(withoutCode).not.toMatch(/\*|`|\]\(|^#|^ *- |^\||<|>/m)
})

test('its headings have the anchors that the console, the alerts and the dashboard link to', () => {
  const page = runbookPage(markdown, base)
  const ids = [...page.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id)
  expect(ids).toEqual([...anchorsOf(markdown)])
  expect(troubleRows.filter((row) => !ids.includes(sectionOf(row)))).toEqual([])
  const targets = [...page.matchAll(/ href="([^"]*)"/g)].map(([, target = '']) => target)
  const within = targets.filter((target) => target.startsWith('#'))
  expect(within.length).toBeGreaterThan(20)
  expect(within.filter((target) => !ids.includes(target.slice(1)))).toEqual([])
  // Links to other documents lead to the repository.
  expect(targets).toContain('https://example.org/quotegate/blob/main/docs/limits.md')
})

test.each([
  ['a `<b>` & "c"', '<p>a <code>&lt;b&gt;</code> &amp; &quot;c&quot;</p>\n'],
  ['<script>x</script>', '<p>&lt;script&gt;x&lt;/script&gt;</p>\n'],
  [
    '**a `b`** and *c\nd*',
    '<p><strong>a <code>b</code></strong> and <em>c\nd</em></p>\n',
  ],
  ['[`a` b](#c)', '<p><a href="#c"><code>a</code> b</a></p>\n'],
  [
    '[a](../x.md#y)',
    '<p><a href="https://example.org/quotegate/blob/main/x.md#y" target="_blank" rel="noopener noreferrer">a</a></p>\n',
  ],
  ['## `A_b`: C, d', '<h2 id="a_b-c-d"><code>A_b</code>: C, d</h2>\n'],
  [
    'a\n- b\n  c\n  - d\n- e\n\nf',
    '<p>a</p>\n<ul>\n<li><p>b\nc</p>\n<ul>\n<li><p>d</p>\n</li>\n</ul>\n</li>\n<li><p>e</p>\n</li>\n</ul>\n<p>f</p>\n',
  ],
  ['1. a\n   b', '<ol>\n<li><p>a\nb</p>\n</li>\n</ol>\n'],
  ['```sh\n- a <b>\n```\nc', '<pre><code>- a &lt;b&gt;</code></pre>\n<p>c</p>\n'],
  [
    '| a | b |\n|---|---|\n| `c` | d |',
    '<table>\n<tr><th>a</th><th>b</th></tr>\n<tr><td><code>c</code></td><td>d</td></tr>\n</table>\n',
  ],
])('%j is drawn as such', (text, html) => {
  expect(bodyOf(text)).toBe(html)
})
