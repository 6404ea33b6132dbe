import { z } from 'zod'
import type { ProblemSlug } from '../../src/http/problem.ts'
import {
  type UpstreamName,
  upstreamNames,
  upstreamTable,
} from '../../src/http/upstreams.ts'
import {
  health as gatewayHealth,
  hello,
  history,
  outage,
  refusal,
  seenRequest,
  slots,
  status,
  tick,
} from '../../src/operations/schemas.ts'
import { version } from '../../src/process/package-info.ts'
import { headerComponents, headerRefs } from './headers.ts'
import { operationsPaths } from './operations-paths.ts'
import { otherPaths } from './other-paths.ts'
import { parameters } from './parameters.ts'
import { problemResponses, problemSchemas } from './problems.ts'
import {
  amount,
  floatOrder,
  health,
  operationsError,
  quote,
  readiness,
} from './schemas.ts'
import { type Operation, type Paths, swapPaths } from './swap-paths.ts'

const description = `A gateway in front of a swap API (\`/v3\`) and a payments API.

Here is what the gateway itself reads, adds and answers. Whatever it passes through is not described: the upstream's
own answers, errors too, are relayed as they came, and any of its statuses may occur beside those that are listed.
An answer of the gateway's own has the content type \`application/problem+json\` (RFC 9457) and a \`type\` that begins
with \`urn:quotegate:problem:\`; docs/problems.md explains each. Requests to \`/v3\` go on with one clean \`Forwarded\`;
payments and webhooks go through byte for byte, in both directions.

New members and problems may be added: ignore those that you do not know.`

function listener(description: string, port: string): object {
  return {
    url: 'http://{host}:{port}',
    description,
    variables: { host: { default: '127.0.0.1' }, port: { default: port } },
  }
}

const traffic = listener('The traffic listener: HOST and PORT.', '8080')
const operations = listener('The operations listener: ADMIN_HOST and ADMIN_PORT.', '8081')

const tagDescriptions: Partial<Record<UpstreamName, string>> = {
  swap: 'Quotes, orders, and the rest of /v3.',
  payments: 'The paths in PAYMENTS_PATHS, here with its default. Passed byte for byte.',
  webhooks: 'Passed byte for byte, so that signatures still fit.',
}

const tags = [
  ...upstreamNames.map((name) => ({
    name: upstreamTable[name].title,
    description: tagDescriptions[name] ?? 'Passed byte for byte.',
  })),
  { name: 'Operations', description: 'On a listener of its own.' },
]

/** The document of this version: made from the schemas and from the table of problems. */
function openApiDocument(): object {
  const { paths, responses } = withResponses({ ...swapPaths, ...otherPaths })
  return {
    openapi: '3.1.0',
    info: {
      title: 'quotegate',
      version,
      description,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [traffic],
    tags,
    paths: { ...paths, ...onOperationsListener(operationsPaths) },
    components: {
      schemas: schemaComponents(),
      responses: {
        UpstreamAnswer: {
          description: 'The answer of the upstream, as it came.',
          headers: headerRefs(['RateLimit', 'RateLimit-Policy']),
          content: { '*/*': {} },
        },
        ...responses,
      },
      parameters,
      headers: headerComponents(),
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'The upstream’s key: passed on, not judged.',
        },
        adminToken: { type: 'http', scheme: 'bearer', description: 'ADMIN_TOKEN.' },
      },
    },
  }
}

function withResponses(paths: Paths) {
  const components: Record<string, object> = {}
  function spelledOut({ problems, ...operation }: Operation): object {
    // Only a gateway that is mounted behind a body parser answers so.
    const withBody: readonly ProblemSlug[] = operation.requestBody
      ? ['body-already-read']
      : []
    const made = problemResponses([...problems, ...withBody])
    Object.assign(components, made.components)
    return { ...operation, responses: { ...made.responses, ...operation.responses } }
  }
  const spelled = Object.entries(paths).map(([path, operations]) => {
    const methods = Object.entries(operations)
    return [
      path,
      Object.fromEntries(
        methods.map(([method, operation]) => [method, spelledOut(operation)]),
      ),
    ]
  })
  return { paths: Object.fromEntries(spelled), responses: components }
}

function onOperationsListener(paths: typeof operationsPaths): Record<string, object> {
  return Object.fromEntries(
    Object.entries(paths).map(([path, item]) => [
      path,
      { servers: [operations], ...item },
    ]),
  )
}

function schemaComponents(): Record<string, object> {
  const named: Record<string, z.ZodType> = {
    Quote: quote,
    Amount: amount,
    FloatOrder: floatOrder,
    Health: health,
    Readiness: readiness,
    Status: status,
    History: history,
    Hello: hello,
    Tick: tick,
    GatewayHealth: gatewayHealth,
    Outage: outage,
    Slots: slots,
    SeenRequest: seenRequest,
    Refusal: refusal,
    OperationsError: operationsError,
    ...problemSchemas(),
  }
  const registry = z.registry<{ id: string }>()
  for (const [id, schema] of Object.entries(named)) registry.add(schema, { id })
  const { schemas } = z.toJSONSchema(registry, {
    // What may be read, not what parsing makes of it: unknown members are allowed.
    io: 'input',
    uri: (id) => `#/components/schemas/${id}`,
  })
  return Object.fromEntries(
    Object.entries(schemas).map(([id, { $id: _id, $schema: _schema, ...schema }]) => [
      id,
      schema,
    ]),
  )
}

/** As it is served, and as it stands in docs/openapi.json. */
export const openApiJson = `${JSON.stringify(openApiDocument(), null, 2)}\n`
