import { describe, expect, onTestFinished, test } from 'vitest'
import { createGateway } from '../../src/gateway/gateway.ts'
import { ask as askOperations } from '../operations/support.ts'
import { asking, ask as askTraffic } from '../support/clients/quotes.ts'
import { rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import { gatewayWith } from '../support/gateways/between.ts'
import { bytesOf, sandboxStage } from './provocations.ts'
import {
  type Call,
  callsOf,
  type Documented,
  faultsOf,
  onOperations,
  onTraffic,
  resolve,
} from './support.ts'

const onTrafficById = (id: string) =>
  onTraffic.find(({ operation }) => operation.operationId === id) as Documented
const floatOrder = onTrafficById('createFloatOrder')

/** With the id of a quote that is there, where the document can only show what one looks like. */
async function withRealId(call: Call, url: string): Promise<Call> {
  if (call.body?.quoteId === undefined) return call
  const { body: quote } = await asking(url, '0.1', ['App-Name', 'demo'])
  return { ...call, body: { ...call.body, quoteId: JSON.parse(quote).id } }
}

describe('a request with the examples of the document', () => {
  const passed = onTraffic.filter(
    ({ operation }) => operation.operationId !== 'traceQuote',
  )
  // The one path that goes nowhere.
  const isPassed = ({ target }: Call) => target !== '/nowhere'

  test.each(
    passed.map((documented) => [documented.operation.operationId, documented] as const),
  )('is accepted without a problem: %s', async (_id, documented) => {
    const { url, gateway } = await sandboxStage()
    for (const example of callsOf(documented).filter(isPassed)) {
      const { status } = await rawExchange(url, bytesOf(await withRealId(example, url)))
      expect(status).toBeLessThan(300)
      expect(
        [String(status), '2XX', 'default'].some((one) => one in documented.responses),
      ).toBe(true)
    }
    expect(await gateway.metrics()).not.toMatch(/^quotegate_problems_total\{.*\} [1-9]/m)
  })

  test.each(['terms', 'id'])('orders the intended quote: by %s', async (name) => {
    const { url, gateway } = await sandboxStage()
    const examples =
      floatOrder.operation.requestBody?.content['application/json'].examples ?? {}
    await asking(url, '0.1', ['App-Name', 'demo'])
    const call = callsOf(floatOrder)[Object.keys(examples).indexOf(name)] as Call
    const { status } = await rawExchange(url, bytesOf(await withRealId(call, url)))
    expect(status).toBe(201)
    const live = 'quotegate_float_orders_total{decision="forwarded",reason="live"} 1\n'
    expect(await gateway.metrics()).toContain(live)
  })
})

describe('a quote', () => {
  const ok = onTraffic.find(({ path }) => path === '/v3/pairs/{pairId}/quotes')
    ?.responses['200']
  const fieldsOf = ({ rawHeaders }: { rawHeaders: string[] }) =>
    Object.fromEntries(
      Object.entries(ok?.headers ?? {}).map(([name, node]) => {
        const values = valuesOf(rawHeaders, name.toLowerCase())
        const { schema } = resolve<{ schema: Record<string, unknown> }>(node)
        for (const value of values)
          expect(faultsOf(schema, value), `${name}: ${value}`).toEqual([])
        return [name, values]
      }),
    )

  test('is answered as documented from the provider, from a call in flight, and from the cache', async () => {
    const { url, sandbox } = await sandboxStage({ RATE_LIMIT_PER_MINUTE: 100 })
    // Long enough for the second to come while the first is under way.
    sandbox.faults({ latencyMs: 200 })
    const fetched = await Promise.all([asking(url, '0.1'), asking(url, '0.1')])
    const answers = [
      ...fetched,
      await asking(url, '0.1'),
      await askTraffic(url, { method: 'HEAD' }),
    ]
    const byStatus = new Map(
      answers.map(fieldsOf).map((one) => [one['Cache-Status']?.join(), one]),
    )
    const stored = 'quotegate; fwd=uri-miss; stored; ttl=30'
    const all = [stored, 'quotegate; fwd=uri-miss; collapsed', 'quotegate; hit; ttl=30']
    expect([...byStatus.keys()].sort()).toEqual(all.sort())
    expect(byStatus.get(stored)).toMatchObject({
      RateLimit: ['"default";r=99;t=60'],
      'RateLimit-Policy': ['"default";q=100;w=60'],
    })
    for (const fields of byStatus.values())
      expect([fields['Cache-Control']?.length, fields['X-Request-Id']?.length]).toEqual([
        1, 1,
      ])
    const schema = ok?.content?.['application/json']?.schema ?? {}
    const [{ body } = { body: '' }] = fetched
    expect(faultsOf(schema, JSON.parse(body))).toEqual([])
    // What the example shows, except its id and time.
    const { examples } = resolve<{ examples: object[] }>({
      $ref: '#/components/schemas/Quote',
    })
    expect(JSON.parse(body)).toEqual({
      ...examples[0],
      id: expect.any(String),
      expiry: expect.any(Number),
    })
  })

  test('that is refused by the provider has a Cache-Status that says so, as documented', async () => {
    const { url } = await sandboxStage()
    const answer = await askTraffic(url, { path: '/v3/pairs/NO_PAIR/quotes?amount=1' })
    expect(answer.status).toBe(404)
    expect(fieldsOf(answer)['Cache-Status']).toEqual([
      'quotegate; fwd=bypass; detail=status',
    ])
  })
})

describe('the operations listener', () => {
  const token = { ADMIN_TOKEN: 'a-token-of-some-length' }
  type Asked = Pick<
    Awaited<ReturnType<typeof askOperations>>,
    'status' | 'headers' | 'body'
  >
  const at = async (path: string, headers = {}, settings = {}): Promise<Asked> =>
    askOperations((await gatewayWith(settings)).operationsUrl + path, { headers })
  const untrusted = (path: string) => () =>
    at(path, { Authorization: 'Bearer wrong' }, token)
  const misled = (path: string) => () => at(path, { Host: 'evil.example' })
  /** Each documented answer, by path and status. */
  const provoked: Record<string, () => Promise<Asked>> = {
    '/healthz 200': () => at('/healthz'),
    '/readyz 200': () => at('/readyz'),
    async '/readyz 503'() {
      const gateway = await gatewayWith()
      void gateway.close({ delayMs: 60_000 })
      return askOperations(`${gateway.operationsUrl}/readyz`)
    },
    '/metrics 200': () => at('/metrics'),
    // For any Host, without a token.
    '/openapi.json 200': () => at('/openapi.json', { Host: 'any.example' }, token),
    '/runbook 200': () => at('/runbook', { Host: 'any.example' }, token),
    '/settings 200': () => at('/settings'),
    '/settings 401': untrusted('/settings'),
    '/settings 421': misled('/settings'),
    async '/status 200'() {
      const gateway = await createGateway({
        PORT: 0,
        ADMIN_PORT: 0,
        ORDER_UNKNOWN_QUOTE: 'refuse',
      })
      onTestFinished(() => gateway.close())
      const { trafficUrl, operationsUrl } = await gateway.listen()
      await rawExchange(trafficUrl, bytesOf(callsOf(floatOrder)[0] as Call))
      const answer = await askOperations(`${operationsUrl}/status`)
      expect(JSON.parse(answer.body).lastRefusals).toHaveLength(1)
      return answer
    },
    '/status 401': untrusted('/status'),
    '/status 421': misled('/status'),
    async '/status 304'() {
      const { operationsUrl } = await gatewayWith()
      const askWith = (headers: Record<string, string>) =>
        askOperations(`${operationsUrl}/status`, { headers })
      let answer = await askWith({})
      // In its first second a gateway notes that it has begun.
      for (let round = 1; answer.status === 200 && round <= 10; round += 1)
        answer = await askWith({ 'If-None-Match': String(answer.headers.etag) })
      return answer
    },
  }

  test('has no documented answer that this test does not provoke', () => {
    const documented = onOperations.flatMap(({ path, responses }) =>
      Object.keys(responses).map((status) => `${path} ${status}`),
    )
    expect(Object.keys(provoked).sort()).toEqual(documented.sort())
  })

  test.each(Object.entries(provoked))(
    'answers as documented: %s',
    async (name, provoke) => {
      const [path, status = ''] = name.split(' ')
      const answer = await provoke()
      expect(answer.status).toBe(Number(status))
      const response = onOperations.find((documented) => documented.path === path)
        ?.responses[status]
      const [[type, content] = []] = Object.entries(response?.content ?? {})
      if (type === undefined) return expect(answer.body).toBe('')
      expect(String(answer.headers['content-type'])).toContain(type)
      const isText = type === 'text/plain' || type === 'text/html'
      const value = isText ? answer.body : JSON.parse(answer.body)
      expect(faultsOf(content?.schema ?? {}, value)).toEqual([])
    },
  )
})
