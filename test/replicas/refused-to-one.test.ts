import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import {
  type Answered,
  asking,
  giveQuote,
  lookups,
  untilCounted,
  watchForUnhandled,
} from '../support/clients/quotes.ts'
import { at, refuse, refusedAddress, sharedBy } from '../support/clients/refusals.ts'
import { until } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import { idOf, replicaStage, stored } from '../support/gateways/replicas.ts'

const [a1, a2, b1, b2, b3] = [1, 2, 3, 4, 5].map((last) => `198.51.100.${last}`) as [
  string,
  string,
  string,
  string,
  string,
]

/** A refused client's call at one replica, with a1 and a2 waiting there, and b1 to b3 at the other replica. */
async function refusedAtOneReplica() {
  const { here, there, waiting } = await replicaStage(2, sharedBy.header)
  const unhandled = watchForUnhandled()
  const callOf = (address: string) =>
    waiting.find(({ req }) => req.headers.forwarded === `for=${address}`) as ServerResponse
  const called = (count: number) => until(() => waiting.length >= count, `call ${count}`)
  const refused = asking(here.url, '0.1', at(refusedAddress))
  await called(1)
  const join = async (replica: RunningGateway, addresses: string[], joinedBefore: number) => {
    const answers: Promise<Answered>[] = []
    for (const address of addresses) {
      answers.push(asking(replica.url, '0.1', at(address)))
      await untilCounted(replica, lookups('collapsed'), joinedBefore + answers.length)
    }
    return answers
  }
  const atHere = await join(here, [a1, a2], 0)
  const first = asking(there.url, '0.1', at(b1))
  await untilCounted(there, stored('quote-get'), 1)
  const atThere = [first, ...(await join(there, [b2, b3], 0))]
  return { here, waiting, callOf, called, refused, atHere, atThere, unhandled }
}

describe('the refusal of a client at one replica', { tags: ['redis-server'] }, () => {
  it('goes to no client at another replica that waits for its call', async () => {
    const { waiting, callOf, called, refused, atHere, atThere, unhandled } = await refusedAtOneReplica()
    refuse(callOf(refusedAddress))
    expect((await refused).status).toBe(403)
    // Each replica makes one further call at once.
    await called(3)
    giveQuote(callOf(a1))
    giveQuote(callOf(b1))
    const answers = await Promise.all([...atHere, ...atThere])
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
    expect(waiting).toHaveLength(3)
    expect(unhandled).toEqual([])
  })

  it('is its own for each client of a country that is refused whole, after three calls at most', async () => {
    const { waiting, callOf, called, refused, atHere, atThere } = await refusedAtOneReplica()
    refuse(callOf(refusedAddress))
    await called(3)
    refuse(callOf(a1))
    refuse(callOf(b1))
    await called(6)
    for (const address of [a2, b2, b3]) refuse(callOf(address))
    const bodies = (await Promise.all([refused, ...atHere, ...atThere])).map(({ body }) => body)
    expect(bodies).toEqual([refusedAddress, a1, a2, b1, b2, b3].map((one) => `refused to for=${one}`))
    expect(waiting).toHaveLength(6)
  })

  it('heard a second time is followed by no call where another replica has stored a quote meanwhile', async () => {
    const { here, waiting, callOf, called, refused, atHere, atThere } = await refusedAtOneReplica()
    refuse(callOf(refusedAddress))
    await refused
    await called(3)
    giveQuote(callOf(a1))
    const [quote] = await Promise.all(atHere)
    await untilCounted(here, stored('quote-set'), 1)
    refuse(callOf(b1))
    const [own, ...others] = await Promise.all(atThere)
    expect(own?.status).toBe(403)
    expect(others.map(idOf)).toEqual([idOf(quote as Answered), idOf(quote as Answered)])
    expect(waiting).toHaveLength(3)
  })
})
