import { readdirSync, readFileSync } from 'node:fs'
import ts from 'typescript'

export interface FoundExpression {
  /** Where it stands: `src/http/headers.ts:172`. */
  at: string
  expression: RegExp
}

const sources = new URL('../../../src/', import.meta.url)

/** Every file of `src/` that holds code, the console's own included. */
export function sourceFiles(): string[] {
  return readdirSync(sources, { recursive: true, encoding: 'utf8' })
    .map((path) => `src/${path.replaceAll('\\', '/')}`)
    .filter((path) => /\.(?:ts|js)$/.test(path))
    .sort()
}

/** The regular expressions that a file writes as literals, and the lines on which it builds others out of text. */
export function expressionsIn(path: string): {
  found: FoundExpression[]
  built: string[]
} {
  const text = readFileSync(new URL(`../${path}`, sources), 'utf8')
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest)
  const found: FoundExpression[] = []
  const built: string[] = []
  const visit = (node: ts.Node): void => {
    const at = () =>
      `${path}:${source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1}`
    if (ts.isRegularExpressionLiteral(node))
      found.push({ at: at(), expression: evaluated(node.text) })
    const called =
      ts.isNewExpression(node) || ts.isCallExpression(node) ? node.expression : undefined
    if (called !== undefined && ts.isIdentifier(called) && called.text === 'RegExp')
      built.push(at())
    ts.forEachChild(node, visit)
  }
  visit(source)
  return { found, built }
}

function evaluated(literal: string): RegExp {
  const end = literal.lastIndexOf('/')
  return new RegExp(literal.slice(1, end), literal.slice(end + 1))
}
