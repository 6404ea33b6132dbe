/**
 * Finds words that readers stumble over, each with its file and line: npm run lint calls it. A word is looked for in prose only:
 * comments, sentences in strings, and pages without their code. The list is meant to grow.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

/** Patterns match whole words, in any case; `\b` is set around each of them below. */
const rows: readonly (readonly [string, string])[] = [
  ['mend(?:s|ed|ing)?', 'fix'],
  ['reckon(?:s|ed|ing)?', 'count, compute'],
  ['in vain', 'failed, without success'],
  ['anew', 'again, new'],
  ['strangers?', 'name who it is: an unknown caller, anyone who reaches the port'],
  ['nobody|somebody|whoever', 'name who it is: the caller, no caller, a user'],
  ['he|him|his', 'name who it is: the caller, it, they'],
  ['(?<!\\bthere )(?:is|are|was|were) no(?! more\\b| longer\\b)', 'is not X, has no X'],
  ['(?:is|are|was|were|be|been|being) told', 'is notified, receives, is called with'],
  ['in earnest', 'in production'],
  ['whose word|word is believed', 'trusted'],
  ['runs? before a (?:built-in )?sandbox', 'uses the sandbox'],
  ['for ever', 'forever, without end'],
  ['the same answers', 'memoized'],
  ['at hand', 'available, installed'],
  ['of (?:yours|theirs)', 'your own, their'],
  ['well again', 'has recovered'],
  ['the way of an? \\w+', 'the flow of, the path of'],
  ['have it that|be it|as it were|must needs', 'say it plainly'],
  [
    'thereof|thereby|therein|whence|hence|thence|hitherto|heretofore|forthwith|albeit|lest|nay|ere',
    'a modern word',
  ],
  ['amongst|whilst|upon|unto|betwixt', 'among, while, on, to, between'],
  ['befalls?|befell|begets?|begot|begotten|bade|bids', 'happens to, starts, tells'],
  ['wish(?:es)?', 'request, want'],
  ['hears', 'gets, learns'],
  ['as ever', 'as usual'],
  ['for want of', 'because there is no, without'],
  ['one another', 'each other'],
  ['seldom', 'rarely'],
  ['left alone for a (?:while|moment)', 'gets no requests for a while'],
  ['anybody', 'any caller, another user, anyone'],
  ['all the same', 'still, anyway, equal'],
  ['at the most', 'at most'],
  ['for good', 'permanently'],
  ['let(?:s|ting)? go of', 'drops, closes, evicts'],
  ['lends?|lent', 'gives, supplies'],
  ['(?:is|are|was|were|be|been) taken for(?! granted)', 'counts as, is mistaken for'],
  [
    '(?<!\\bthere )(?:is|are|was|were) none(?! of)',
    'is not X, is invalid, is not counted',
  ],
]

/** A space between two words may be the end of a line, with what begins a line of a comment. */
const space = '(?: |\\s*\\n[\\s\\0]*(?:\\*|//|#|>)? *)'

const rules = rows.map(([words, write]) => ({
  pattern: new RegExp(`\\b(?:${words.replaceAll(' ', space)})\\b`, 'gi'),
  write,
}))

type Span = readonly [start: number, end: number]

const codeFiles = new Set(['.ts', '.mts', '.js', '.mjs'])
const pages = new Set(['.md', '.html', '.css', '.yml', '.yaml', '.service'])
const hashed = new Set(['.sh', '.env', '.gitignore', '.npmrc', ''])

/** Nothing, for files that people do not read as text, or that are made from those that are read. */
function proseOf(path: string, text: string): string {
  const extension = extname(path)
  if (codeFiles.has(extension)) return proseOfScript(path, text)
  if (pages.has(extension)) return withoutCode(text)
  if (hashed.has(extension)) return text.replace(/^(?!\s*#).*$/gm, blank)
  return ''
}

function proseOfScript(path: string, text: string): string {
  const source = ts.createSourceFile(
    path,
    text,
    ts.ScriptTarget.Latest,
    true,
    ts.ScriptKind.TS,
  )
  const spans: Span[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isJSDoc(node)) return
    if (isText(node) && isSentence.test(node.getText(source)))
      spans.push(...insides(node, source))
    const children = node.getChildren(source)
    if (children.length === 0) {
      const before = ts.getLeadingCommentRanges(text, node.getFullStart()) ?? []
      const behind = ts.getTrailingCommentRanges(text, node.getEnd()) ?? []
      for (const { pos, end } of [...before, ...behind]) spans.push([pos, end])
    }
    children.forEach(visit)
  }
  visit(source)
  return withoutCode(keepOnly(text, spans))
}

/** Two words with a space between them: names of headers, files and metrics have none. */
const isSentence = /\p{L}[^\p{L}\s]* +\p{L}/u

type Text = ts.StringLiteral | ts.NoSubstitutionTemplateLiteral | ts.TemplateExpression

function isText(node: ts.Node): node is Text {
  return (
    ts.isStringLiteral(node) ||
    ts.isNoSubstitutionTemplateLiteral(node) ||
    ts.isTemplateExpression(node)
  )
}

/** Without the quotes, and of a template without what is code. */
function insides(node: Text, source: ts.SourceFile): Span[] {
  const parts = ts.isTemplateExpression(node)
    ? [node.head, ...node.templateSpans.map(({ literal }) => literal)]
    : [node]
  return parts.map((part) => [part.getStart(source) + 1, part.getEnd() - 1])
}

function keepOnly(text: string, spans: readonly Span[]): string {
  let kept = ''
  for (const [start, end] of spans.toSorted(([one], [other]) => one - other)) {
    if (end <= kept.length) continue
    kept +=
      blank(text.slice(kept.length, start)) +
      text.slice(Math.max(start, kept.length), end)
  }
  return kept
}

/** Without fenced code, code within a sentence, HTML tags and the targets of links. */
function withoutCode(text: string): string {
  return text
    .replace(/^```[\s\S]*?^```$/gm, blank)
    .replace(/`(?:[^`\0\n]|\n(?!\n))+`/g, blank)
    .replace(/\]\([^)\s]+\)/g, blank)
}

function blank(text: string): string {
  return text.replace(/[^\n]/g, '\0')
}

const root = fileURLToPath(new URL('..', import.meta.url))
const listed = [
  'ls-files',
  '-z',
  '--cached',
  '--others',
  '--exclude-standard',
  '--deduplicate',
]
const files = execFileSync('git', listed, { cwd: root, encoding: 'utf8' }).split('\0')
let found = 0
for (const path of files) {
  // The list itself names them.
  if (path === '' || path === 'scripts/words.ts') continue
  const prose = proseOf(path, readFileSync(`${root}/${path}`, 'utf8'))
  for (const { pattern, write } of rules) {
    for (const { 0: words, index } of prose.matchAll(pattern)) {
      found += 1
      const line = prose.slice(0, index).split('\n').length
      process.stdout.write(
        `${path}:${line}: "${words.replace(/\W+/g, ' ')}": write ${write}\n`,
      )
    }
  }
}
process.stdout.write(`Words: ${found} found in ${files.length - 1} files.\n`)
process.exitCode = found === 0 ? 0 : 1
