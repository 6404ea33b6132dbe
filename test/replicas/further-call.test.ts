import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { ask, giveQuote, lookups, untilCounted, watchForUnhandled } from '../support/clients/quotes.ts'
import { until } from '../support/gateways/between.ts'
import { cacheStatusOf, idOf, replicaStage, stored } from '../support/gateways/replicas.ts'

const hanging = { UPSTREAM_HEADERS_TIMEOUT_MS: '3000' }

describe('after a call that failed by time, a replica', { tags: ['redis-server'] }, () => {
  it('makes one further call at once for those that joined, and shares its quote with the others', async () => {
    const unhandled = watchForUnhandled()
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
    expect([cacheStatusOf(hit).includes('; hit;'), idOf(hit)]).toEqual([true, idOf(answers[0] ?? hit)])
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
