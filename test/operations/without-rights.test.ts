import { expect, test } from 'vitest'
import { status as declared } from '../../src/operations/schemas.ts'
import { giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import {
  aSecond,
  floatOrder,
  gatewayInHaste,
  production,
  quote,
  statusOf,
} from './support.ts'

const token = 'correct-horse-battery'
const withToken = { Authorization: `Bearer ${token}` }

/** One quote is given, one application has reached its limit, and one pair fails. */
async function gatewayWithSecrets() {
  const upstream = await recordingUpstream(({ target }, response) => {
    if (target.includes('ETH_USDC'))
      giveQuote(response, quoteBody({ id: 'secret-quote' }))
    else if (target.includes('LIMITED'))
      response.writeHead(429, { 'Retry-After': '30' }).end()
    else response.writeHead(503).end()
  })
  const gateway = await gatewayInHaste({
    ...production,
    SWAP_BASE_URL: upstream.url,
    ADMIN_TOKEN: token,
    ORDER_EXPIRY_MARGIN_MS: 60_000,
    breakerFailures: 1,
  })
  const application = 'secret-app'
  await quote(gateway, { application })
  await floatOrder(gateway, { application })
  await quote(gateway, { pair: 'LIMITED', application: 'secret-limited' }).catch(() => {})
  const headers = { 'X-Request-Id': 'secret-request', Forwarded: 'for=198.51.100.7' }
  for (let failed = 1; failed <= 2; failed += 1) {
    await quote(gateway, { pair: 'SECRET_PAIR', application, headers }).catch(() => {})
    gateway.pass(aSecond)
  }
  return gateway
}

test('without the token a viewer sees what is wrong and how much, and nothing of a request, its caller or its user', async () => {
  const gateway = await gatewayWithSecrets()
  const full = await statusOf(gateway, withToken)
  expect(full).toMatchObject({
    lastRefusals: [
      {
        application: 'secret-app',
        client: '127.0.0.x',
        quotes: [{ id: 'secret-quote' }],
      },
    ],
    refusedByApplication: [{ application: 'secret-app', expired: 1 }],
    coolDowns: {
      clients: 1,
      shown: [{ application: 'secret-limited', address: '127.0.0.x' }],
    },
    untrustedPeers: { count: 1, peers: ['127.0.0.1'] },
    lastRequests: expect.arrayContaining([
      expect.objectContaining({ requestId: 'secret-request' }),
    ]),
  })
  const pairs = { what: 'upstream', howMany: 1, names: ['SECRET_PAIR'] }
  expect(full.outages).toContainEqual(expect.objectContaining(pairs))

  const reading = await statusOf(gateway)
  expect(reading).toMatchObject({
    access: 'reading',
    ordersRefused: 1,
    refusedByApplication: [],
    lastRequests: [],
    quotes: [{ id: '' }],
    faults: null,
    coolDowns: { clients: 1, shown: [{ application: '', address: '' }] },
    untrustedPeers: { count: 1, peers: [] },
    slowest: { requestId: '' },
  })
  expect(reading.outages).toContainEqual(expect.objectContaining({ ...pairs, names: [] }))
  const kept = { rule: full.lastRefusals[0].rule, why: full.lastRefusals[0].why }
  expect(reading.lastRefusals).toEqual([
    {
      number: expect.any(Number),
      at: expect.any(Number),
      reason: 'expired',
      sent: false,
      ...kept,
      quoteAgeMs: expect.any(Number),
      expiredForMs: 0,
      quotesConsidered: 1,
      pair: '',
      amount: '',
      toAmount: null,
      quoteIds: [],
      application: '',
      client: '',
      quoteId: null,
      quotes: [],
      requestId: '',
    },
  ])

  // What is not declared is left out of what is read.
  for (const said of [full, reading]) expect(declared.parse(said)).toEqual(said)
  expect(JSON.stringify(reading)).not.toMatch(/secret|127\.0\.0\.x/i)
})
