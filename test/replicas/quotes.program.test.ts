import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import {
  ask,
  asking,
  giveQuote,
  lookups,
  quoteBody,
  untilCounted,
} from '../support/clients/quotes.ts'
import { at, refuse, refusedAddress, sharedBy } from '../support/clients/refusals.ts'
import { pause, until } from '../support/gateways/between.ts'
import {
  cacheStatusOf,
  idOf,
  replicaStage,
  stored,
} from '../support/gateways/replicas.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'

it('a replica whose clock is an hour behind serves no quote of another one past its expiry', {
  tags: ['redis-server'],
}, async () => {
  const lifeMs = 3_000
  const { upstream, here, there } = await replicaStage(2, {}, (index) => ({
    clock: { nowMs: () => Date.now() - index * 3_600_000 },
  }))
  upstream.answer((_request, response) =>
    giveQuote(response, quoteBody({ expiry: Date.now() + lifeMs })),
  )
  const { id, expiry } = JSON.parse((await ask(here.url)).body)
  await untilCounted(here, stored('quote-set'), 1)
  // It has asked the provider nothing yet, so all that it knows of the time is its own clock and the store.
  let served = 0
  for (;;) {
    const answer = await ask(there.url)
    if (idOf(answer) === id) {
      served += 1
      expect(answer.sentAtMs).toBeLessThan(expiry)
      expect(answer.headers['cache-control']).toMatch(/max-age=[0-2]$/)
    } else if (Date.now() > expiry) break
  }
  expect(served).toBeGreaterThan(0)
})

describe('a quote of another replica that is near its end', {
  tags: ['redis-server'],
}, () => {
  it('is fetched again, with less than a fifth of its life left', async () => {
    const lifeMs = 5_000
    const { upstream, replicas, here, there } = await replicaStage(3)
    upstream.answer((_request, response) =>
      giveQuote(response, quoteBody({ expiry: Date.now() + lifeMs })),
    )
    const { id, expiry } = JSON.parse((await ask(here.url)).body)
    await untilCounted(here, stored('quote-set'), 1)
    expect(idOf(await ask(there.url))).toBe(id)
    await pause(expiry - lifeMs / 5 + 200 - Date.now())
    expect(idOf(await ask((replicas[2] ?? here).url))).not.toBe(id)
    expect(upstream.requests).toHaveLength(2)
  })

  it('is served while it lives, where the call for a younger one fails', async () => {
    // Longer than quotes live.
    const { upstream, here, there } = await replicaStage(2, {
      QUOTE_MIN_VALIDITY_MS: '3600000',
    })
    upstream.answer((_request, response) =>
      giveQuote(response, quoteBody({ expiry: Date.now() + 120_000 })),
    )
    const { id } = JSON.parse((await ask(here.url)).body)
    await untilCounted(here, stored('quote-set'), 1)
    upstream.answer((_request, response) => response.writeHead(500).end())
    const answer = await ask(there.url)
    expect([idOf(answer), cacheStatusOf(answer)]).toEqual([
      id,
      expect.stringMatching(/^quotegate; fwd=stale; fwd-status=500; ttl=1[01]\d$/),
    ])
    expect(upstream.requests).toHaveLength(2)
  })

  it('is served no more once the provider has said that it may be over', async () => {
    const { upstream, here } = await replicaStage(1, { QUOTE_MIN_VALIDITY_MS: '3600000' })
    const expiry = Math.ceil(Date.now() / 1_000) * 1_000 + 120_000
    const body = quoteBody({ expiry })
    upstream.answer((_request, response) => giveQuote(response, body, ['Date', 'none']))
    await ask(here.url)
    await untilCounted(here, stored('quote-set'), 1)
    const date = new Date(expiry - 1_000).toUTCString()
    upstream.answer((_request, response) => giveQuote(response, body, ['Date', date]))
    expect(cacheStatusOf(await ask(here.url))).toContain('detail=expired')
    upstream.answer((_request, response) => response.writeHead(500).end())
    expect((await ask(here.url)).status).toBe(500)
  })
})

describe('after a call that failed by time, a replica', {
  tags: ['redis-server'],
}, () => {
  const hanging = { UPSTREAM_HEADERS_TIMEOUT_MS: '3000' }

  it('makes one further call at once for those that joined, and shares its quote with the others', async () => {
    const unhandled = escapedErrors()
    const { upstream, here, there, waiting } = await replicaStage(2, hanging)
    const beginner = ask(here.url)
    await until(() => waiting.length === 1, 'the call')
    const joiners = Array.from({ length: 10 }, () => ask(here.url))
    await untilCounted(here, lookups('collapsed'), 10)
    expect((await beginner).status).toBe(504)
    // lockWaitMs is far longer: the lock of the first call is not waited for.
    await until(() => waiting.length === 2, 'the further call')
    giveQuote(waiting[1] as ServerResponse)
    const answers = await Promise.all(joiners)
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200))
    await untilCounted(here, stored('quote-set'), 1)
    const hit = await ask(there.url)
    expect([cacheStatusOf(hit).includes('; hit;'), idOf(hit)]).toEqual([
      true,
      idOf(answers[0] ?? hit),
    ])
    expect(upstream.requests).toHaveLength(2)
    expect(unhandled).toEqual([])
  })

  it('makes no further call where another replica has fetched the quote meanwhile', async () => {
    const { upstream, here, there, waiting } = await replicaStage(2, {
      ...hanging,
      lockWaitMs: '300',
    })
    const beginner = ask(here.url)
    await until(() => waiting.length === 1, 'the call')
    const joiners = [ask(here.url), ask(here.url)]
    await untilCounted(here, lookups('collapsed'), 2)
    const other = ask(there.url)
    await until(() => waiting.length === 2, 'the call of the other replica')
    giveQuote(waiting[1] as ServerResponse)
    const id = idOf(await other)
    await untilCounted(there, stored('quote-set'), 1)
    expect((await beginner).status).toBe(504)
    expect((await Promise.all(joiners)).map(idOf)).toEqual([id, id])
    expect(upstream.requests).toHaveLength(2)
  })
})

describe('what the provider says to one user alone', { tags: ['redis-server'] }, () => {
  const [a1, a2, b1, b2] = [
    '198.51.100.1',
    '198.51.100.2',
    '198.51.100.3',
    '198.51.100.4',
  ] as const

  /** A refused user's call at one replica, with a1 and a2 waiting there, and b1 and b2 at the other replica. */
  async function refusedAtOneReplica() {
    const { here, there, waiting } = await replicaStage(2, sharedBy.header)
    const callOf = (address: string) =>
      waiting.find(
        ({ req }) => req.headers.forwarded === `for=${address}`,
      ) as ServerResponse
    const called = (count: number) =>
      until(() => waiting.length >= count, `call ${count}`)
    const refused = asking(here.url, '0.1', at(refusedAddress))
    await called(1)
    const atHere: ReturnType<typeof asking>[] = []
    for (const address of [a1, a2]) {
      atHere.push(asking(here.url, '0.1', at(address)))
      await untilCounted(here, lookups('collapsed'), atHere.length)
    }
    const atThere = [asking(there.url, '0.1', at(b1))]
    await untilCounted(there, stored('quote-get'), 1)
    atThere.push(asking(there.url, '0.1', at(b2)))
    await untilCounted(there, lookups('collapsed'), 1)
    refuse(callOf(refusedAddress))
    expect((await refused).status).toBe(403)
    // Each replica makes one further call at once.
    await called(3)
    return { here, waiting, callOf, atHere, atThere }
  }

  it('goes to no user at another replica who waits for the call', async () => {
    const unhandled = escapedErrors()
    const { waiting, callOf, atHere, atThere } = await refusedAtOneReplica()
    giveQuote(callOf(a1))
    giveQuote(callOf(b1))
    const answers = await Promise.all([...atHere, ...atThere])
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect(waiting).toHaveLength(3)
    expect(unhandled).toEqual([])
  })

  it('heard a second time is followed by no call where another replica has stored a quote meanwhile', async () => {
    const { here, waiting, callOf, atHere, atThere } = await refusedAtOneReplica()
    giveQuote(callOf(a1))
    const [quote] = await Promise.all(atHere)
    await untilCounted(here, stored('quote-set'), 1)
    refuse(callOf(b1))
    const [own, other] = await Promise.all(atThere)
    expect(own?.status).toBe(403)
    expect(other?.body).toBe(quote?.body)
    expect(waiting).toHaveLength(3)
  })

  it('is its limit: another user gets a quote, who waited for the same call', async () => {
    const settings = { TRUST_PROXY: 'loopback', QUOTE_PARTITION: 'none' }
    const { here, store, upstream } = await replicaStage(1, settings)
    upstream.answer((request, response) => {
      if (request.headers.forwarded === `for=${a2}`) giveQuote(response)
      else response.writeHead(429, ['Retry-After', '30']).end()
    })
    expect((await asking(here.url, '1', at(a1))).status).toBe(429)
    // The call waits for the store, and so do the requests that join it.
    store.freeze()
    const asked = upstream.requests.length
    const limited = asking(here.url, '2', at(a1))
    await untilCounted(here, 'quotegate_http_requests_in_flight', 1)
    const joining = asking(here.url, '2', at(a2))
    await untilCounted(here, lookups('collapsed'), 1)
    store.thaw()
    expect((await joining).status).toBe(200)
    expect((await limited).status).toBe(429)
    expect(upstream.requests).toHaveLength(asked + 1)
    expect(JSON.parse((await limited).body).type).toBe(
      'urn:quotegate:problem:provider-limit',
    )
  })
})

it("a caller that leaves while it waits for another replica's call is not counted against its limit", {
  tags: ['redis-server'],
}, async () => {
  const { upstream, here, there, waiting } = await replicaStage(2, {
    QUOTE_PARTITION: 'none',
    TRUST_PROXY: 'loopback',
    RATE_LIMIT_PER_MINUTE: '10',
    RATE_LIMIT_BY: 'client-ip',
  })
  const from = (address: string) => ['App-Name', 'wallet', 'Forwarded', `for=${address}`]
  const first = asking(here.url, '0.1', from('198.51.100.1'))
  await until(() => waiting.length === 1, 'a call that another replica waits for')
  const leaving = new AbortController()
  const left = ask(there.url, {
    headers: from('198.51.100.2'),
    signal: leaving.signal,
  }).catch(() => 'left')
  await untilCounted(there, stored('quote-get'), 2)
  leaving.abort()
  expect(await left).toBe('left')
  await pause(300)
  upstream.answer((_request, response) => response.end('{}'))
  const { headers } = await ask(there.url, {
    path: '/v3/assets',
    headers: from('198.51.100.2'),
  })
  expect(String(headers.ratelimit)).toContain('r=9')
  giveQuote(waiting[0] as ServerResponse)
  expect((await first).status).toBe(200)
})

it('a list of rates is one call of all replicas, if SHARE_RATES is on', {
  tags: ['redis-server'],
}, async () => {
  const { upstream, here, there } = await replicaStage(2, { SHARE_RATES: 'on' })
  const list = JSON.stringify([{ expiry: Date.now() + 120_000, note: 'Zoë' }])
  upstream.answer((_request, response) => response.end(list))
  const rates = { path: '/v3/pairs/ETH_USDC/rates' }
  await ask(here.url, rates)
  await untilCounted(here, stored('quote-set'), 1)
  const { body, headers } = await ask(there.url, rates)
  expect(Buffer.from(body, 'latin1').toString()).toBe(list)
  expect(headers['cache-status']).toContain('hit')
  expect(upstream.requests).toHaveLength(1)
})
