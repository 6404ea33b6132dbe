/** The prose of a file: what a person reads of it, without code. Everything else is blanked, so that lines stay. */
import { extname } from 'node:path'
import ts from 'typescript'

type Span = readonly [start: number, end: number]

const scripts = new Set(['.ts', '.mts', '.js', '.mjs'])
const pages = new Set(['.md', '.html', '.css', '.yml', '.yaml', '.service'])
const hashed = new Set(['.sh', '.env', '.gitignore', '.npmrc', ''])

/** Nothing, for files that people do not read as text, or that are made from those that are read. */
export function proseOf(path: string, text: string): string {
  const extension = extname(path)
  if (scripts.has(extension)) return proseOfScript(path, text)
  if (pages.has(extension)) return withoutCode(text)
  if (hashed.has(extension)) return text.replace(/^(?!\s*#).*$/gm, blank)
  return ''
}

function proseOfScript(path: string, text: string): string {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true, ts.ScriptKind.TS)
  const spans: Span[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isJSDoc(node)) return
    if (isText(node) && isSentence.test(node.getText(source))) spans.push(...insides(node, source))
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
  return ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node) || ts.isTemplateExpression(node)
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
    kept += blank(text.slice(kept.length, start)) + text.slice(Math.max(start, kept.length), end)
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
