import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { z } from 'zod'
import * as ofOperations from '../../src/operations/schemas.ts'
import { version } from '../../src/process/package-info.ts'
import { problemResponses, problemSchemas } from './problems.ts'
import * as ofTraffic from './schemas.ts'

/** As document.yaml has it. */
interface Operation {
  readonly parameters: readonly string[]
  /** Only on the traffic listener. */
  readonly problems?: readonly string[]
  readonly responses?: object
}

interface Written {
  readonly info: object
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly responses: object
    readonly schemas: Readonly<Record<string, { properties: object }>>
  }
}

const text = readFileSync(new URL('document.yaml', import.meta.url), 'utf8')
const { info, paths, components, ...written }: Written = parse(text, { merge: true })

const operations = Object.values(paths).flatMap((path) => Object.values(path))
const responses = operations.flatMap(({ problems = [] }) => problemResponses(problems))

function spelledOut(operation: Operation): object {
  if (operation.problems === undefined) return operation
  const { parameters, problems, ...rest } = operation
  const ofProblems = problemResponses(problems).map(({ status, name }) => [
    status,
    { $ref: `#/components/responses/${name}` },
  ])
  return {
    ...rest,
    parameters: parameters.map((name) => ({ $ref: `#/components/parameters/${name}` })),
    responses: { ...Object.fromEntries(ofProblems), ...rest.responses },
  }
}

/** The order of a module's exports depends on what has loaded it. */
const byName = ([one]: [string, unknown], [other]: [string, unknown]) =>
  one < other ? -1 : 1

/** Each schema that has a name. */
function schemaComponents(): Record<string, object> {
  const registry = z.registry<{ id: string }>()
  const named = { ...ofTraffic, ...ofOperations }
  for (const [name, schema] of Object.entries(named).sort(byName))
    registry.add(schema, { id: name[0]?.toUpperCase() + name.slice(1) })
  const { schemas } = z.toJSONSchema(registry, {
    // What may be read, not what parsing makes of it: unknown members are allowed.
    io: 'input',
    uri: (id) => `#/components/schemas/${id}`,
  })
  return mapValues(schemas, ({ $id: _id, $schema: _schema, ...schema }) => schema)
}

function mapValues<From, To>(
  record: Readonly<Record<string, From>>,
  change: (value: From) => To,
): Record<string, To> {
  return Object.fromEntries(
    Object.entries(record).map(([name, value]) => [name, change(value)]),
  )
}

const document = {
  ...written,
  info: { ...info, version },
  paths: mapValues(paths, (path) => mapValues(path, spelledOut)),
  components: {
    ...components,
    responses: {
      ...components.responses,
      ...Object.fromEntries(responses.map(({ name, response }) => [name, response])),
    },
    schemas: { ...schemaComponents(), ...problemSchemas(components.schemas) },
  },
}

/** An object or a list that holds no other. */
const leaf = /[[{]\n[^[\]{}]+\n *[\]}]/g

/** As it is served, and as it stands in docs/openapi.json. */
export const openApiJson = `${JSON.stringify(document, null, 2).replace(leaf, (lines) =>
  lines.replaceAll(/\n */g, ' '),
)}\n`
