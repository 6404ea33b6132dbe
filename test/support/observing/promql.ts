import { parser } from '@prometheus-io/lezer-promql'

export interface Matcher {
  label: string
  operator: string
  value: string
}

export interface Selector {
  metric: string
  matchers: readonly Matcher[]
}

export interface ParsedQuery {
  /** What could not be understood, as written. */
  errors: readonly string[]
  selectors: readonly Selector[]
  /** Labels that results are grouped by. */
  grouping: readonly string[]
}

export function parseQuery(query: string): ParsedQuery {
  const errors: string[] = []
  const selectors: Selector[] = []
  const grouping: string[] = []
  const text = ({ from, to }: { from: number; to: number }) => query.slice(from, to)
  parser.parse(query).iterate({
    enter(node) {
      if (node.type.isError)
        errors.push(text(node) || `at ${node.from}: something is missing`)
      if (node.name === 'GroupingLabels') {
        grouping.push(...node.node.getChildren('LabelName').map(text))
      }
      if (node.name === 'VectorSelector') {
        const name = node.node.getChild('Identifier')
        const matchers =
          node.node.getChild('LabelMatchers')?.getChildren('UnquotedLabelMatcher') ?? []
        selectors.push({
          metric: name ? text(name) : '',
          matchers: matchers.map((matcher) => {
            const [label = '', operator = '', value = ''] = [
              'LabelName',
              'MatchOp',
              'StringLiteral',
            ].map((part) => {
              const child = matcher.getChild(part)
              return child ? text(child) : ''
            })
            return { label, operator, value: value.slice(1, -1) }
          }),
        })
      }
    },
  })
  return { errors, selectors, grouping }
}
