import { reference } from './references.ts'

/** What the operations listener answers, apart from the console and its actions. */
export const operationsPaths = {
  '/healthz': get('getHealth', 'Whether the process answers', {
    200: json('It does.', 'Health'),
  }),
  '/readyz': get('getReadiness', 'Whether it wants traffic', {
    200: json('It does.', 'Readiness'),
    503: json('It does not: it is starting, or has been asked to stop.', 'Readiness'),
  }),
  '/metrics': get('getMetrics', 'For Prometheus; docs/metrics.md explains each', {
    200: answer('The metrics.', 'text/plain', { type: 'string' }),
  }),
  '/openapi.json': get('getOpenApi', 'This document, of the version that answers', {
    200: answer('It.', 'application/json', { type: 'object' }),
  }),
  '/runbook': get('getRunbook', 'docs/runbook.md of the version that answers', {
    200: answer('A page.', 'text/html', { type: 'string' }),
  }),
  '/status': guarded('getStatus', 'How the gateway is, for machines', {
    200: json('With request details where ADMIN_TOKEN allows it.', 'Status'),
  }),
  '/history': guarded('getHistory', 'What was kept since the start', {
    200: json('Without request details.', 'History'),
  }),
  '/stream': guarded(
    'getStream',
    'Made for the console: it may change with each version',
    {
      200: answer('`hello`, and then one `tick` a second.', 'text/event-stream', {
        oneOf: [reference('schemas', 'Hello'), reference('schemas', 'Tick')],
      }),
      403: json('A page of another origin.', 'OperationsError'),
      503: json('200 viewers are there already.', 'OperationsError'),
    },
  ),
}

/** What guarded paths are answered in place of what they have. */
export const refusals = {
  WrongToken: json('That is not the ADMIN_TOKEN.', 'OperationsError'),
  WrongHost: json(
    'The Host is neither an IP address, nor localhost or in ADMIN_ALLOWED_HOSTS.',
    'OperationsError',
  ),
}

function get(
  operationId: string,
  summary: string,
  responses: object,
  security: readonly object[] = [],
): object {
  const operation = { operationId, tags: ['Operations'], summary, security, responses }
  return {
    servers: [{ url: 'http://127.0.0.1:8081' }],
    get: operation,
  }
}

function guarded(operationId: string, summary: string, responses: object): object {
  const refused = {
    401: reference('responses', 'WrongToken'),
    421: reference('responses', 'WrongHost'),
  }
  return get(operationId, summary, { ...responses, ...refused }, [{}, { adminToken: [] }])
}

function json(description: string, schema: string): object {
  return answer(description, 'application/json', reference('schemas', schema))
}

function answer(description: string, type: string, schema: object): object {
  return { description, content: { [type]: { schema } } }
}
