import { describe, expect, test } from 'vitest'
import { type ProblemSlug, problemTypes } from '../../src/http/problem.ts'
import { notProvoked, provocations } from '../openapi/provocations.ts'
import {
  callsOf,
  type Documented,
  type DocumentedResponse,
  faultsOf,
  onTraffic,
  resolve,
  slugsOf,
} from '../openapi/support.ts'
import { type ParsedAnswer, valuesOf } from '../support/clients/raw-connection.ts'

type Body = Record<string, unknown>

const framing = ['content-type', 'content-length', 'connection', 'date', 'keep-alive']
/** Only where it says something: the rest of what is documented of a problem is always there. */
const sometimes = ['Proxy-Status', 'RateLimit', 'RateLimit-Policy']

function problemIn({
  rawHeaders,
  body,
}: ParsedAnswer): { slug: string; body: Body | undefined } | undefined {
  if (valuesOf(rawHeaders, 'content-type')[0] !== 'application/problem+json')
    return undefined
  const parsed = body.length === 0 ? undefined : (JSON.parse(body.toString()) as Body)
  return {
    slug: String(parsed?.type).replace('urn:quotegate:problem:', ''),
    body: parsed,
  }
}

function expectDocumentedHeaders(
  { rawHeaders }: ParsedAnswer,
  response: DocumentedResponse,
): void {
  const documented = Object.entries(response.headers ?? {})
  for (const [name, node] of documented) {
    const { schema } = resolve<{ schema: Body }>(node)
    const values = valuesOf(rawHeaders, name.toLowerCase())
    // Of the problems of one status, only `order-in-progress` says when to ask again.
    const isOfOne = name === 'Retry-After' && slugsOf([response]).has('order-in-progress')
    if (!sometimes.includes(name) && !isOfOne) expect(values, name).toHaveLength(1)
    for (const value of values)
      expect(faultsOf(schema, value), `${name}: ${value}`).toEqual([])
  }
  const names = rawHeaders
    .filter((_, index) => index % 2 === 0)
    .map((name) => name.toLowerCase())
  const known = [...framing, ...documented.map(([name]) => name.toLowerCase())]
  expect(names.filter((name) => !known.includes(name))).toEqual([])
}

function expectDocumented(
  answer: ParsedAnswer,
  body: Body | undefined,
  { responses }: Documented,
): void {
  const response = responses[answer.status]
  if (response === undefined) throw new Error(`a ${answer.status} is not documented`)
  expectDocumentedHeaders(answer, response)
  const content = response.content?.['application/problem+json']
  if (body === undefined) return
  expect(faultsOf(content?.schema ?? {}, body)).toEqual([])
  expect(body.requestId).toBe(valuesOf(answer.rawHeaders, 'x-request-id')[0])
}

/** Whether it is that problem; every problem that it may be has to be documented. */
function isAsDocumented(
  answer: ParsedAnswer,
  slug: ProblemSlug,
  documented: Documented,
): boolean {
  const problem = problemIn(answer)
  if (problem === undefined) return false
  expectDocumented(answer, problem.body, documented)
  // The answer to a HEAD tells no more than its status.
  if (problem.body === undefined) return answer.status === problemTypes[slug].status
  if (problem.slug !== slug) return false
  expect(problem.body.title).toBe(problemTypes[slug].title)
  return true
}

describe.each(Object.keys(provocations) as ProblemSlug[])(
  'every error that quotegate itself sends: %s',
  (slug) => {
    test('is answered as documented by the operations that document it, and by no other', async () => {
      const provoke = await provocations[slug]?.()
      const answered = await Promise.all(
        onTraffic.map(async (documented) => {
          const answers = await Promise.all(
            callsOf(documented).map((call) => provoke?.(call)),
          )
          return answers.some(
            (answer) => answer && isAsDocumented(answer, slug, documented),
          )
            ? [documented.operation.operationId]
            : []
        }),
      )
      const documentedBy = onTraffic
        .filter(({ responses }) => slugsOf(Object.values(responses)).has(slug))
        .map(({ operation }) => operation.operationId)
      expect(answered.flat()).toEqual(documentedBy)
    })
  },
)

test('every problem is either provoked here or listed with the reason why not', () => {
  const told = [...Object.keys(provocations), ...Object.keys(notProvoked)]
  expect(told.sort()).toEqual(Object.keys(problemTypes).sort())
})
