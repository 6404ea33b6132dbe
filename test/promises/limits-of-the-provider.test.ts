import { describe, expect, it } from 'vitest'
import { post } from '../support/clients/orders.ts'
import {
  type Answered,
  ask,
  asking,
  counted,
  createTestClock,
  giveQuote,
  notKept,
  quoteBody,
} from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayWith, recordingUpstream, until } from '../support/gateways/between.ts'
import { keptLog } from '../support/observing/log-lines.ts'

/** A provider that answers quotes with 429 while `limit` says so, and remembers what it was asked. */
async function stage(settings: Record<string, string | number> = {}) {
  const clock = createTestClock()
  const provider = {
    limit: undefined as readonly string[] | undefined,
    refusal: 'slow down',
    limits: (_headers: NodeJS.Dict<string | string[]>): boolean => true,
  }
  const upstream = await recordingUpstream(({ target, headers }, response) => {
    response.sendDate = false
    const date = ['Date', new Date(clock.nowMs()).toUTCString()]
    if (provider.limit !== undefined && provider.limits(headers))
      response.writeHead(429, [...date, ...provider.limit]).end(provider.refusal)
    else if (!target.includes('/quotes')) response.end('ok')
    else giveQuote(response, quoteBody({ expiry: clock.nowMs() + 60_000 }), date)
  })
  const log = await keptLog()
  const all = { SWAP_BASE_URL: upstream.url, TRUST_PROXY: 'loopback', ...settings }
  const gateway = await gatewayWith(all, { clock, logger: log.logger })
  let amounts = 0
  /** A quote that is in no cache. */
  const fresh = (headers?: readonly string[]) => {
    amounts += 1
    return asking(gateway.url, String(amounts), headers)
  }
  return { clock, provider, upstream, gateway, log, fresh }
}

const from = (address: string, application = 'web') => [
  'App-Name',
  application,
  'Forwarded',
  `for="${address}"`,
]
const typeOf = (answer: Answered) => JSON.parse(answer.body).type
const limited = 'urn:quotegate:problem:provider-limit'
const seconds = (answer: Answered) => Number(answer.headers['retry-after'])

describe('a limit that the provider sets is met by three addresses, and again after its wait: a 429', () => {
  it('is relayed; then the provider is not asked until its Retry-After is over', async () => {
    const { clock, provider, upstream, gateway, fresh } = await stage()
    provider.limit = ['Retry-After', '3', 'X-Limit', 'theirs']
    const relayed = await fresh()
    expect(relayed).toMatchObject({ status: 429, body: 'slow down' })
    expect(relayed.headers).toMatchObject({ 'retry-after': '3', 'x-limit': 'theirs' })
    expect(await counted(gateway, notKept('limited'))).toBe(1)
    clock.advance(1_500)
    const refused = await fresh()
    expect(JSON.parse(refused.body)).toMatchObject({
      type: limited,
      retryable: true,
      upstream: 'swap',
    })
    expect(seconds(refused)).toBe(2)
    expect(upstream.requests).toHaveLength(1)

    clock.advance(1_500)
    provider.limit = undefined
    const after = await Promise.all([fresh(), fresh()])
    expect(after.map(({ status }) => status)).toEqual([200, 200])
  })

  it.each([
    ['none', [], 1],
    ['0', ['Retry-After', '0'], 1],
    ['7', ['Retry-After', '7'], 7],
    ['10 minutes, of which 30 seconds count', ['Retry-After', '600'], 30],
    ['a number beyond all measure', ['Retry-After', '9'.repeat(400)], 30],
    ['words', ['Retry-After', 'soon'], 1],
    ['two lines', ['Retry-After', '2', 'Retry-After', '4'], 4],
    ['none, and a RateLimit', ['RateLimit', '"burst";r=0;t=3, "day";r=0;t=12'], 12],
    [
      'none, and a RateLimit as it was',
      ['RateLimit', 'limit=9, remaining=0, reset=8'],
      8,
    ],
    ['none, and a RateLimit-Reset', ['RateLimit-Reset', '11'], 11],
    [
      '2, and a longer X-RateLimit-Reset',
      ['Retry-After', '2', 'X-RateLimit-Reset', '6.2'],
      7,
    ],
    ['9, and a shorter one', ['Retry-After', '9', 'X-RateLimit-Reset', '6'], 9],
    ['none, and an instant', ['X-RateLimit-Reset', '1763651851'], 10],
    ['none, and an instant in ms', ['X-RateLimit-Reset', '1763651854500'], 14],
    ['none, and an instant that is over', ['X-RateLimit-Reset', '1763651800'], 1],
    ['none, and a date', ['RateLimit-Reset', 'Thu, 20 Nov 2025 15:17:30 GMT'], 9],
    ['a date that is over', ['Retry-After', 'Thu, 20 Nov 2025 15:17:00 GMT'], 1],
    ['a date', ['Retry-After', 'Thu, 20 Nov 2025 15:17:30 GMT'], 9],
  ])('with a Retry-After of %s', async (_what, headers, expected) => {
    const { provider, fresh } = await stage()
    provider.limit = headers
    await fresh()
    expect(seconds(await fresh())).toBe(expected)
  })

  it.each([
    ['retryAfter', '{"retryAfter":5}', 5],
    ['retry_after in a text', '{"code":"SLOW","retry_after":"6"}', 6],
    ['retry_after of its error', '{"error":{"retry_after":7.5}}', 8],
    ['an instant in its details', '{"details":{"retryAfter":1763651850}}', 9],
    ['less than its head', '{"retryAfter":1}', 3],
    ['nothing that is a time', '{"retryAfter":null,"error":"soon"}', 3],
  ])('with %s in its body', async (_what, body, expected) => {
    const { provider, fresh } = await stage()
    provider.limit = ['Retry-After', '3']
    provider.refusal = body
    expect((await fresh()).body).toBe(body)
    expect(seconds(await fresh())).toBe(expected)
  })

  it('at three addresses in a row limits the application, until a wait is over or a quote comes', async () => {
    const { clock, provider, upstream, fresh, gateway } = await stage()
    provider.limit = ['Retry-After', '9']
    for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3'])
      expect((await fresh(from(address))).body).toBe('slow down')
    const refused = await fresh(from('192.0.2.4'))
    expect([typeOf(refused), seconds(refused)]).toEqual([limited, 9])
    expect(upstream.requests).toHaveLength(3)
    const { coolDowns } = JSON.parse(
      await (await fetch(`${gateway.operationsUrl}/status`)).text(),
    )
    expect(coolDowns.shown).toContainEqual({
      application: 'web',
      address: 'all addresses',
      leftMs: 9_000,
    })
    provider.limit = undefined
    expect((await fresh(from('192.0.2.4', 'shop'))).status).toBe(200)
    clock.advance(9_000)
    expect((await fresh(from('192.0.2.4'))).status).toBe(200)
  })

  it('at three addresses does not, if a quote of the application came between them', async () => {
    const { provider, upstream, fresh } = await stage()
    provider.limit = ['Retry-After', '9']
    provider.limits = ({ forwarded }) => forwarded !== 'for=192.0.2.9'
    const asked = [1, 2, 9, 3, 4].map((client) => `192.0.2.${client}`)
    const statuses: number[] = []
    for (const address of asked) statuses.push((await fresh(from(address))).status)
    expect(statuses).toEqual([429, 429, 200, 429, 429])
    expect(upstream.requests).toHaveLength(asked.length)
  })

  it('does not affect live quotes, other applications, other credentials and other addresses', async () => {
    const { provider, upstream, fresh, gateway } = await stage()
    await asking(gateway.url, '0.5', from('192.0.2.1'))
    provider.limit = ['Retry-After', '9']
    for (const times of [1, 2]) {
      expect((await fresh(from('192.0.2.1'))).body.includes(limited)).toBe(times === 2)
      expect(upstream.requests).toHaveLength(2)
    }
    const hit = await asking(gateway.url, '0.5', from('192.0.2.1'))
    expect(hit).toMatchObject({
      status: 200,
      headers: { 'cache-status': 'quotegate; hit; ttl=60' },
    })
    const authorized = [...from('192.0.2.1'), 'Authorization', 'Bearer theirs']
    const others = [
      from('192.0.2.1', 'shop'),
      authorized,
      from('192.0.2.2'),
      from('unknown'),
    ]
    // The third address of one application is the last that meets a limit of that application.
    for (const headers of others) expect((await fresh(headers)).body).toBe('slow down')
    provider.limits = () => false
    for (const headers of others.slice(0, 3))
      expect(typeOf(await fresh(headers))).toBe(limited)
  })

  it('does not limit orders, pairs and the state of an order, and their limit does not limit quotes', async () => {
    const { provider, upstream, gateway, fresh } = await stage()
    provider.limit = ['Retry-After', '9']
    const expectOthersRelayed = async () => {
      const order = post('{"pairId":"A_B","fromAmount":1}')
      const others = ['/v3/pairs', '/v3/orders/1'].map((path) =>
        ask(gateway.url, { path }),
      )
      const answers = [
        ...(await Promise.all(others)),
        await rawExchange(gateway.url, order),
      ]
      expect(answers.map(({ body }) => String(body))).toEqual([
        'slow down',
        'slow down',
        'slow down',
      ])
    }
    for (let times = 0; times < 2; times += 1) await expectOthersRelayed()
    expect(await fresh()).toMatchObject({ body: 'slow down' })
    await expectOthersRelayed()
    expect(upstream.requests).toHaveLength(10)
  })

  it('pauses refresh-ahead', async () => {
    const { clock, provider, upstream, gateway, fresh } = await stage({
      QUOTE_REFRESH_AHEAD_MS: 50_000,
    })
    await asking(gateway.url, '0.5')
    provider.limit = ['Retry-After', '30']
    await fresh()
    clock.advance(29_999)
    expect((await asking(gateway.url, '0.5')).status).toBe(200)
    expect(upstream.requests).toHaveLength(2)
    provider.limit = undefined
    clock.advance(1)
    await asking(gateway.url, '0.5')
    await until(() => upstream.requests.length === 3, 'the refresh')
  })

  it('is not followed by requests that count for RATE_LIMIT_PER_MINUTE, because they are not sent', async () => {
    const { clock, provider, fresh } = await stage({ RATE_LIMIT_PER_MINUTE: 2 })
    provider.limit = ['Retry-After', '2']
    await fresh()
    for (let times = 0; times < 5; times += 1) expect(typeOf(await fresh())).toBe(limited)
    clock.advance(2_000)
    provider.limit = undefined
    expect((await fresh()).status).toBe(200)
    expect(typeOf(await fresh())).toBe('urn:quotegate:problem:rate-limited')
  })

  it('is counted, logged once, and shown in /status', async () => {
    const { clock, provider, gateway, log, fresh } = await stage()
    const metric = notKept('limited')
    const status = async () =>
      JSON.parse(await (await fetch(`${gateway.operationsUrl}/status`)).text())
    expect(await status()).toMatchObject({ coolDowns: { clients: 0, longestLeftMs: 0 } })
    provider.limit = ['Retry-After', '5']
    for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.2'])
      await fresh(from(address))
    expect(await counted(gateway, metric)).toBe(2)
    const shown = { application: 'web', address: '192.0.2.x', leftMs: 5_000 }
    expect((await status()).coolDowns).toEqual({
      clients: 2,
      longestLeftMs: 5_000,
      shown: [shown, shown],
    })
    clock.advance(5_000)
    expect(await status()).toMatchObject({ coolDowns: { clients: 0, longestLeftMs: 0 } })
    expect(await counted(gateway, metric)).toBe(2)
    const said = log
      .lines()
      .filter(({ msg }) => msg.startsWith('the provider answered a quote with 429'))
    // The other address is summed: `times` in a line at the end of 10 s.
    expect(said).toMatchObject([
      { application: 'web', client: '192.0.2.x', forMs: 5_000 },
    ])
  })
})
