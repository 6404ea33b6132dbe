import { z } from 'zod'
import {
  type UpstreamName,
  upstreamNames,
  upstreamTable,
} from '../../src/http/upstreams.ts'
import * as ofOperations from '../../src/operations/schemas.ts'
import { version } from '../../src/process/package-info.ts'
import { headerComponents } from './headers.ts'
import { operationsPaths, refusals } from './operations-paths.ts'
import { parameterComponents } from './parameters.ts'
import { problemResponses, problemSchemas } from './problems.ts'
import { headerReferences, pascalCase, reference } from './references.ts'
import * as ofTraffic from './schemas.ts'
import { problemsOfOperations, trafficPaths } from './traffic-paths.ts'

const description = `A gateway in front of a swap API (\`/v3\`) and a payments API.

Here is what the gateway itself reads, adds and answers. Whatever it passes through is not described: the upstream's
own answers, errors too, are relayed as they came, and any of its statuses may occur beside those that are listed.
An answer of the gateway's own has the content type \`application/problem+json\` (RFC 9457) and a \`type\` that begins
with \`urn:quotegate:problem:\`; docs/problems.md explains each. Requests to \`/v3\` go on with one clean \`Forwarded\`;
payments and webhooks go through byte for byte, in both directions.

New members and problems may be added: ignore those that you do not know.`

const tagDescriptions: Partial<Record<UpstreamName, string>> = {
  swap: 'Quotes, orders, and the rest of /v3.',
  payments: 'The paths in PAYMENTS_PATHS, here with its default. Passed byte for byte.',
}

const responses = {
  UpstreamAnswer: {
    description: 'The answer of the upstream, as it came.',
    headers: headerReferences('RateLimit', 'RateLimit-Policy'),
    content: { '*/*': {} },
  },
  Quote: {
    description:
      'A quote that is live now. End-to-end headers of the provider come with it, less its cookies; on a hit also ' +
      'less what described the one exchange that brought it. A 200 of the provider that is not a quote is relayed ' +
      'as it came, with `Cache-Status: quotegate; fwd=bypass; detail=…`.',
    headers: headerReferences(
      'Cache-Control',
      'Cache-Status',
      'Vary',
      'X-Request-Id',
      'RateLimit',
      'RateLimit-Policy',
    ),
    content: { 'application/json': { schema: reference('schemas', 'Quote') } },
  },
  TakenOrder: {
    description: 'The provider took the order; its answer is relayed as it came.',
    headers: headerReferences('X-Request-Id', 'Idempotent-Replayed'),
    content: { '*/*': {} },
  },
  ...refusals,
  ...problemResponses(problemsOfOperations),
}

/** The order of a module's exports depends on what has loaded it. */
const byName = ([one]: [string, unknown], [other]: [string, unknown]) =>
  one < other ? -1 : 1

/** Each schema that has a name, or a member of health that /status repeats. */
function schemaComponents(): Record<string, object> {
  const registry = z.registry<{ id: string }>()
  const { clock, journal, slowest } = ofOperations.gatewayHealth.shape
  const named = { ...ofTraffic, ...ofOperations, clock, journal, slowest }
  for (const [name, schema] of Object.entries(named).sort(byName))
    registry.add(schema, { id: pascalCase(name) })
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

const document = {
  openapi: '3.1.0',
  info: {
    title: 'quotegate',
    version,
    description,
    license: { name: 'MIT', identifier: 'MIT' },
  },
  servers: [{ url: 'http://127.0.0.1:8080' }],
  tags: [
    ...upstreamNames.map((name) => ({
      name: upstreamTable[name].title,
      description: tagDescriptions[name] ?? 'Passed byte for byte.',
    })),
    {
      name: 'Operations',
      description: 'On a listener of its own: ADMIN_HOST and ADMIN_PORT.',
    },
  ],
  paths: { ...trafficPaths, ...operationsPaths },
  components: {
    schemas: { ...schemaComponents(), ...problemSchemas },
    responses,
    parameters: parameterComponents,
    headers: headerComponents,
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

/** An object or a list that holds no other. */
const leaf = /[[{]\n[^[\]{}]{1,110}\n *[\]}]/g

/** As it is served, and as it stands in docs/openapi.json. */
export const openApiJson = `${JSON.stringify(document, null, 2).replace(leaf, inOneLine)}\n`

function inOneLine(lines: string): string {
  return lines.replaceAll(/\n */g, ' ')
}
