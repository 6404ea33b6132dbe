import type { ProblemSlug } from '../../src/http/problem.ts'

/** An operation before its problems are spelt out as responses. */
export interface Operation {
  operationId: string
  tags: readonly string[]
  summary: string
  description?: string
  parameters?: readonly object[]
  requestBody?: object
  responses: Record<string, object>
  /** Empty: it takes no key. */
  security: readonly object[]
  problems: readonly ProblemSlug[]
}

export type Paths = Record<string, Record<string, Operation>>

export const upstreamAnswer = { $ref: '#/components/responses/UpstreamAnswer' }

export function parameter(name: string): object {
  return { $ref: `#/components/parameters/${name}` }
}

export function anyBody(example: object): object {
  return { required: true, content: { 'application/json': { example } } }
}
