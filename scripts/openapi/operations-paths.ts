/** What the operations listener answers, apart from the console and its actions. */
export const operationsPaths: Record<
  string,
  { get: { security: readonly object[]; [field: string]: unknown } }
> = {
  '/healthz': {
    get: {
      operationId: 'getHealth',
      tags: ['Operations'],
      summary: 'Whether the process answers',
      security: [],
      responses: { '200': json('It does.', 'Health') },
    },
  },
  '/readyz': {
    get: {
      operationId: 'getReadiness',
      tags: ['Operations'],
      summary: 'Whether it wants traffic',
      security: [],
      responses: {
        '200': json('It does.', 'Readiness'),
        '503': json(
          'It does not: it is starting, or has been asked to stop.',
          'Readiness',
        ),
      },
    },
  },
  '/metrics': {
    get: {
      operationId: 'getMetrics',
      tags: ['Operations'],
      summary: 'For Prometheus; docs/metrics.md explains each',
      security: [],
      responses: {
        '200': {
          description: 'The metrics.',
          content: { 'text/plain': { schema: { type: 'string' } } },
        },
      },
    },
  },
  '/openapi.json': {
    get: {
      operationId: 'getOpenApi',
      tags: ['Operations'],
      summary: 'This document',
      security: [],
      responses: {
        '200': {
          description: 'This document, of the version that answers.',
          content: { 'application/json': { schema: { type: 'object' } } },
        },
      },
    },
  },
  '/runbook': {
    get: {
      operationId: 'getRunbook',
      tags: ['Operations'],
      summary: 'What to do when something is wrong: docs/runbook.md as a page',
      security: [],
      responses: {
        '200': {
          description:
            'The runbook of the version that answers. It has a section for each alert and outage.',
          content: { 'text/html': { schema: { type: 'string' } } },
        },
      },
    },
  },
  '/status': {
    get: {
      operationId: 'getStatus',
      tags: ['Operations'],
      summary: 'How the gateway is, for machines',
      description: 'To an IP address, localhost or a name in ADMIN_ALLOWED_HOSTS only.',
      security: [{}, { adminToken: [] }],
      responses: {
        '200': json('With request details where ADMIN_TOKEN allows it.', 'Status'),
        '401': json('That is not the ADMIN_TOKEN.', 'OperationsError'),
        '421': json('Another Host header.', 'OperationsError'),
      },
    },
  },
  '/history': {
    get: {
      operationId: 'getHistory',
      tags: ['Operations'],
      summary: '15 min by ten seconds, 24 h by the minute, past outages and events',
      description:
        'To an IP address, localhost or a name in ADMIN_ALLOWED_HOSTS only. It has no request details.',
      security: [{}, { adminToken: [] }],
      responses: {
        '200': json('What was kept since the start.', 'History'),
        '401': json('That is not the ADMIN_TOKEN.', 'OperationsError'),
        '421': json('Another Host header.', 'OperationsError'),
      },
    },
  },
  '/stream': {
    get: {
      operationId: 'getStream',
      tags: ['Operations'],
      summary: 'What the console shows, as server-sent events',
      description:
        'To an IP address, localhost or a name in ADMIN_ALLOWED_HOSTS only. Made for the console: its members may ' +
        'change with each version.',
      security: [{}, { adminToken: [] }],
      responses: {
        '200': {
          description:
            'An event `hello`, and then one `tick` a second. The data of each is a line of JSON.',
          content: {
            'text/event-stream': {
              schema: { oneOf: [reference('Hello'), reference('Tick')] },
            },
          },
        },
        '401': json('That is not the ADMIN_TOKEN.', 'OperationsError'),
        '403': json('A page of another origin.', 'OperationsError'),
        '421': json('Another Host header.', 'OperationsError'),
        '503': json('200 viewers are there already.', 'OperationsError'),
      },
    },
  },
}

function json(description: string, schema: string): object {
  return { description, content: { 'application/json': { schema: reference(schema) } } }
}

function reference(schema: string): object {
  return { $ref: `#/components/schemas/${schema}` }
}
