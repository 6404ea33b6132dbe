import type { ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  ask,
  counted,
  createTestClock,
  giveQuote,
  lookups,
  quoteBody,
  quotePath,
  untilCounted,
} from '../support/clients/quotes.ts'
import {
  gatewayWith,
  pause,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import {
  cacheStatusOf,
  eventually,
  idOf,
  replicaSettings,
  replicaStage,
  stored,
} from '../support/gateways/replicas.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'
import { valkey } from '../support/stores/valkey.ts'

const refreshes = (outcome: string) =>
  `quotegate_quote_refreshes_total{outcome="${outcome}"}`
const first = (waiting: readonly ServerResponse[]) => waiting[0] as ServerResponse

describe('requests for a cold key over several replicas', {
  tags: ['redis-server'],
}, () => {
  it.each([2, 4])('make one upstream call: %d replicas, 60 requests', async (count) => {
    const { upstream, replicas, waiting } = await replicaStage(count)
    const answers = Array.from({ length: 60 }, (_, index) =>
      ask(replicas[index % count]?.url ?? ''),
    )
    await Promise.all(
      replicas.map((replica) =>
        untilCounted(replica, lookups('collapsed'), 60 / count - 1),
      ),
    )
    await until(() => waiting.length === 1, 'the upstream call')
    const body = quoteBody()
    giveQuote(first(waiting), body)
    for (const answer of await Promise.all(answers))
      expect([answer.status, answer.body]).toEqual([200, body])
    expect(upstream.requests).toHaveLength(1)

    let [fetched, shared] = [0, 0]
    for (const replica of replicas) {
      fetched += await counted(replica, lookups('miss'))
      shared += await counted(replica, lookups('shared'))
    }
    expect([fetched, shared]).toEqual([1, count - 1])
    // From now on each has its own copy.
    for (const replica of replicas)
      expect(cacheStatusOf(await ask(replica.url))).toMatch(/; hit;/)
    expect(upstream.requests).toHaveLength(1)
  })

  // Thawed, it gave the lock to the replica that had gone on alone, and all others waited for that replica.
  it('do not wait for a replica that called the store while it was frozen', async () => {
    const { upstream, store, here, there } = await replicaStage(2, {
      VALKEY_TIMEOUT_MS: '300',
      lockWaitMs: '20000',
    })
    upstream.answer((_request, response) => giveQuote(response))
    // Its scripts are known to the store from here on.
    await ask(here.url, { path: `${quotePath}?amount=7` })
    store.freeze()
    expect((await ask(here.url)).status).toBe(200)
    store.thaw()
    for (const replica of [here, there])
      await eventually(
        'the store to be up',
        async () => (await counted(replica, 'quotegate_store_up')) === 1,
      )
    const askedAtMs = performance.now()
    expect((await ask(there.url)).status).toBe(200)
    expect(performance.now() - askedAtMs).toBeLessThan(10_000)
  })

  it('that come one after the other get the same quote, with its headers, and a hit says so', async () => {
    const { upstream, here, there, waiting } = await replicaStage(2)
    const asked = ask(here.url)
    await until(() => waiting.length === 1, 'the upstream call')
    const body = Buffer.from(quoteBody({ note: 'caf\u00e9' }))
    giveQuote(first(waiting), body, [
      'Content-Type',
      'application/json',
      'X-Odd',
      'a\xff',
      'x-odd',
      'b',
    ])
    const fetched = await asked
    await untilCounted(here, stored('quote-set'), 1)
    const hit = await ask(there.url)
    expect(hit.body).toBe(fetched.body)
    expect(cacheStatusOf(hit)).toMatch(/^quotegate; hit; ttl=\d+$/)
    const kept = hit.rawHeaders.join('\n')
    expect(kept).toContain('X-Odd\na\xff\nx-odd\nb')
    expect(await counted(there, 'quotegate_cache_lookups_total{result="shared"}')).toBe(1)
    expect(upstream.requests).toHaveLength(1)
  })
})

it('the record of a quote and its copy are one write to the socket, the record first', {
  tags: ['redis-server'],
}, async () => {
  const upstream = await recordingUpstream((_request, response) => giveQuote(response))
  const gateway = await gatewayWith(replicaSettings(await valkey(), upstream))
  const prototype = Socket.prototype as unknown as {
    _writev(chunks: { chunk: unknown }[]): void
  }
  const writes = vi.spyOn(prototype, '_writev')
  onTestFinished(() => writes.mockRestore())
  // After the first one the store knows the scripts.
  for (const [index, amount] of [7, 0.1].entries()) {
    writes.mockClear()
    expect(
      (await ask(gateway.url, { path: `${quotePath}?amount=${amount}` })).status,
    ).toBe(200)
    await untilCounted(gateway, stored('quote-set'), index + 1)
  }
  const texts = writes.mock.calls.map(([chunks]) =>
    chunks.map(({ chunk }) => String(chunk)).join(''),
  )
  expect(texts.filter((text) => /xadd[\s\S]*evalsha/.test(text))).toHaveLength(1)
})

describe('a replica that waits for another one', { tags: ['redis-server'] }, () => {
  it.each([
    ['an error', (response: ServerResponse) => response.writeHead(503).end('busy')],
    ['a reset', (response: ServerResponse) => response.socket?.resetAndDestroy()],
    [
      'an answer for one caller alone',
      (response: ServerResponse) => giveQuote(response, quoteBody(), ['Vary', '*']),
    ],
  ])(
    'makes its own call after %s, and does not wait for a third replica',
    async (_what, fail) => {
      const unhandled = escapedErrors()
      const { upstream, replicas, waiting } = await replicaStage(3)
      const answers = replicas.map(({ url }) => ask(url))
      await until(() => waiting.length === 1, 'the upstream call')
      await pause(100)
      expect(waiting).toHaveLength(1)
      fail(first(waiting))
      await until(() => waiting.length === 3, 'the calls of the two others')
      for (const response of waiting.slice(1)) giveQuote(response)
      const statuses = (await Promise.all(answers)).map(({ status }) => status)
      expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(2)
      expect(upstream.requests).toHaveLength(3)
      expect(unhandled).toEqual([])
    },
  )

  it('calls by itself once lockWaitMs is over, and both are answered', async () => {
    const { replicas, waiting } = await replicaStage(2, { lockWaitMs: '300' })
    const answers = replicas.map(({ url }) => ask(url))
    await until(() => waiting.length === 1, 'the first call')
    await until(() => waiting.length === 2, 'the second call')
    giveQuote(waiting[1] as ServerResponse, quoteBody({ id: 'second' }))
    giveQuote(waiting[0] as ServerResponse, quoteBody({ id: 'first' }))
    expect((await Promise.all(answers)).map(idOf).sort()).toEqual(['first', 'second'])
  })

  it('gives up when its last caller leaves, and the lock with it', async () => {
    const unhandled = escapedErrors()
    const { store, here, there, waiting } = await replicaStage(2)
    const leaving = [new AbortController(), new AbortController()] as const
    const leavingFrom = (url: string, { signal }: AbortController) =>
      ask(url, { signal }).catch(() => 'left')
    const left = [leavingFrom(here.url, leaving[0])]
    await until(() => waiting.length === 1, 'the call')
    left.push(leavingFrom(there.url, leaving[1]))
    await untilCounted(there, stored('quote-get'), 2)
    leaving[1].abort()
    await untilCounted(there, gone, 1)
    await pause(100)
    // No request waits there any more, so the store is not asked.
    const looked = await counted(there, stored('quote-get'))
    await pause(200)
    expect(await counted(there, stored('quote-get'))).toBe(looked)
    const [key = ''] = (await store.ask('KEYS', 'quotegate:cache:*')) as string[]
    expect(await store.ask('HEXISTS', key, 'lock')).toBe(1)
    leaving[0].abort()
    expect(await Promise.all(left)).toEqual(['left', 'left'])
    await eventually(
      'the lock to be gone',
      async () => (await store.ask('HEXISTS', key, 'lock')) === 0,
    )
    expect(waiting).toHaveLength(1)
    expect(unhandled).toEqual([])
  })
})

const gone =
  'quotegate_http_requests_total{route="quote",method="GET",status_class="aborted"}'

it('refresh-ahead over several replicas is one call, and all get its quote', {
  tags: ['redis-server'],
}, async () => {
  const clock = createTestClock(Date.now())
  const bodyNow = () => quoteBody({ expiry: clock.nowMs() + 30_000 })
  const settings = { QUOTE_REFRESH_AHEAD_MS: '10000' }
  const { upstream, replicas, waiting } = await replicaStage(3, settings, () => ({
    clock,
  }))
  const undated = ['Date', 'none']
  const asked = replicas.map(({ url }) => ask(url))
  await until(() => waiting.length === 1, 'the first call')
  giveQuote(first(waiting), bodyNow(), undated)
  const [old] = new Set((await Promise.all(asked)).map(idOf))
  clock.advance(22_000)
  for (const { url } of replicas) {
    const hits = await Promise.all(Array.from({ length: 5 }, () => ask(url)))
    expect(new Set(hits.map(idOf))).toEqual(new Set([old]))
  }
  await until(() => waiting.length === 2, 'the refresh')
  const next = bodyNow()
  giveQuote(waiting[1] as ServerResponse, next, undated)
  for (const replica of replicas) {
    await eventually('the new quote', async () => idOf(await ask(replica.url)) !== old)
    expect(idOf(await ask(replica.url))).toBe(JSON.parse(next).id)
  }
  expect(upstream.requests).toHaveLength(2)
  let found = 0
  for (const replica of replicas) found += await counted(replica, refreshes('found'))
  expect(found).toBe(2)
})
