import { readFileSync } from 'node:fs'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'

/** A JSON object of the document, as far as these tests read it. */
interface Node {
  readonly [name: string]: unknown
}

type Of<Value> = Readonly<Record<string, Value>>

interface Content {
  readonly schema?: Node
  readonly examples?: Of<{ readonly value: Record<string, unknown> }>
}

export interface DocumentedResponse {
  readonly headers?: Of<Node>
  readonly content?: Of<Content>
}

interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly example?: string
  /** Of a path that stands for many. */
  readonly examples?: Of<{ readonly value: string }>
}

interface Operation {
  readonly operationId: string
  readonly description?: string
  readonly tags: readonly string[]
  readonly parameters?: readonly Node[]
  readonly requestBody?: { readonly content: { readonly 'application/json': Content } }
  readonly responses: Of<Node>
  readonly security?: readonly Node[]
}

export interface Documented {
  readonly path: string
  readonly method: string
  readonly operation: Operation
  /** By status, with what it refers to. */
  readonly responses: Of<DocumentedResponse>
}

interface OpenApi {
  readonly info: { readonly version: string }
  readonly paths: Of<Of<Operation>>
  readonly components: Of<Of<Node>>
}

export const documentText = readFileSync(
  new URL('../../docs/openapi.json', import.meta.url),
  'utf8',
)
export const openApi = JSON.parse(documentText) as OpenApi

export function resolve<Found>(node: Node): Found {
  const { $ref } = node
  if (typeof $ref !== 'string') return node as Found
  const [, , group = '', name = ''] = $ref.split('/')
  const found = openApi.components[group]?.[name]
  if (found === undefined) throw new Error(`${$ref} leads nowhere`)
  return found as Found
}

export const operations: readonly Documented[] = Object.entries(openApi.paths).flatMap(
  ([path, item]) =>
    Object.entries(item)
      .filter(([method]) => method !== 'servers')
      .map(([method, operation]) => ({
        path,
        method: method.toUpperCase(),
        operation,
        responses: Object.fromEntries(
          Object.entries(operation.responses).map(([status, response]) => [
            status,
            resolve(response),
          ]),
        ),
      })),
)

const isOperations = ({ operation: { tags } }: Documented) => tags.includes('Operations')
export const onTraffic = operations.filter((documented) => !isOperations(documented))
export const onOperations = operations.filter(isOperations)

/** The problems that one of its responses, or any of them, may be. */
export function slugsOf(responses: Iterable<DocumentedResponse>): Set<string> {
  const schemas = [...responses].flatMap((response) => {
    const schema = response.content?.['application/problem+json']?.schema
    return schema === undefined
      ? []
      : ((schema.oneOf as readonly Node[] | undefined) ?? [schema])
  })
  return new Set(schemas.map(slugOfSchema))
}

function slugOfSchema(schema: Node): string {
  const { properties } = resolve<{ properties: { type: { const: string } } }>(schema)
  return properties.type.const.replace('urn:quotegate:problem:', '')
}

/** A request with the examples of the document in it. */
export interface Call {
  method: string
  target: string
  /** Whole lines. */
  headers: string[]
  body: Record<string, unknown> | undefined
}

/** The one example that the document cannot have. */
const key = 'Authorization: Bearer any-key'

/** One request for each example of the body or of the path, or one. */
export function callsOf({ path, method, operation }: Documented): Call[] {
  const parameters = (operation.parameters ?? []).map((node) => resolve<Parameter>(node))
  const placed = (place: Parameter['in']) =>
    parameters.filter(
      ({ in: where, example }) => where === place && example !== undefined,
    )
  const filled = placed('path').reduce(
    (text, { name, example = '' }) => text.replace(`{${name}}`, example),
    path,
  )
  const query = placed('query').map(({ name, example }) => `${name}=${example}`)
  const headers = placed('header').map(({ name, example }) => `${name}: ${example}`)
  const target = query.length > 0 ? `${filled}?${query.join('&')}` : filled
  const content = operation.requestBody?.content['application/json']
  const many = parameters.find(({ examples }) => examples !== undefined)
  if (many?.examples !== undefined) {
    const targets = Object.values(many.examples).map(({ value }) =>
      target.replace(`{${many.name}}`, value),
    )
    return targets.map((one) => ({
      method,
      target: one,
      headers: [...headers, key],
      body: undefined,
    }))
  }
  if (content === undefined) return [{ method, target, headers, body: undefined }]
  headers.push('Content-Type: application/json')
  return Object.values(content.examples ?? {}).map(({ value }) => ({
    method,
    target,
    headers,
    body: value,
  }))
}

const documentId = 'https://quotegate.example/openapi'
const inAjv = <Value>(value: Value): Value =>
  JSON.parse(
    JSON.stringify(value).replaceAll('#/components/schemas/', `${documentId}#/$defs/`),
  )

/** With every object closed that does not say that it is open: what is answered must be documented. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(
    ([name, child]) => [name, closed(child)] as const,
  )
  const node = Object.fromEntries(entries)
  if (node.allOf !== undefined) node.unevaluatedProperties = false
  else if (node.type === 'object' && node.properties !== undefined)
    node.additionalProperties ??= false
  return node
}

const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, allErrors: true })
// What every problem has is open, because each has more.
const { Problem, ...schemas } = inAjv(openApi.components.schemas) ?? {}
ajv.addSchema({ $id: documentId, $defs: { Problem, ...(closed(schemas) as Node) } })

/** Compiled once for each schema. */
const validators = new WeakMap<Node, ValidateFunction>()

/** What is wrong with a value by a schema of the document; empty if nothing is. */
export function faultsOf(schema: Node, value: unknown): string[] {
  const validate = validators.get(schema) ?? ajv.compile(inAjv(schema))
  validators.set(schema, validate)
  if (validate(value)) return []
  return (validate.errors ?? []).map(({ instancePath, message, params }) => {
    return `${instancePath} ${message} ${JSON.stringify(params)}`
  })
}
