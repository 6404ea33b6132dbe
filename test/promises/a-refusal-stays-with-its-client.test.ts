import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import {
  type Answered,
  asking,
  counted,
  giveQuote,
  lookups,
  quoteBody,
} from '../support/clients/quotes.ts'
import { at, refuse, refusedAddress, sharedBy } from '../support/clients/refusals.ts'
import { held } from '../support/gateways/held.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'

// One user who was refused for a place, and asked in a loop, gave the refusal to 296 of 330 requests of its country.

const others = [
  '198.51.100.1',
  '198.51.100.2',
  '198.51.100.3',
  '198.51.100.4',
  '198.51.100.5',
] as const
const statuses = async (answers: Promise<Answered>[]) =>
  (await Promise.all(answers)).map(({ status }) => status)

/** A refused user has begun a call, and these addresses have joined it. */
async function joinedBy(
  addresses: readonly string[],
  settings: Record<string, string> = sharedBy.header,
) {
  const stage = await held(settings)
  const unhandled = escapedErrors()
  const from = (address: string, amount = '0.1') =>
    asking(stage.gateway.url, amount, at(address))
  /** The call with this number, from 0 on. */
  const call = (number: number) => stage.waiting[number] as ServerResponse
  const beginner = from(refusedAddress)
  await stage.called(1)
  const joiners: Promise<Answered>[] = []
  for (const address of addresses) {
    joiners.push(from(address))
    await stage.joined(joiners.length)
  }
  return { ...stage, from, call, beginner, joiners, unhandled }
}

describe('the refusal of one user', () => {
  it.each(Object.entries(sharedBy))(
    'goes to no other that waits for its call: the others share one further call (by %s)',
    async (_by, settings) => {
      const { upstream, gateway, call, called, beginner, joiners, unhandled } =
        await joinedBy([others[0], refusedAddress, ...others.slice(1)], settings)
      refuse(call(0))
      const [own, alike] = await Promise.all([
        beginner,
        joiners.splice(1, 1)[0] as Promise<Answered>,
      ])
      expect([own.status, own.body]).toEqual([403, `refused to for=${refusedAddress}`])
      // Another request of the same user: it would be asked for in the very same words.
      expect([alike.status, alike.body]).toEqual([403, own.body])
      await called(2)
      const body = quoteBody()
      giveQuote(call(1), body)
      for (const answer of await Promise.all(joiners))
        expect([answer.status, answer.body]).toEqual([200, body])
      expect(upstream.requests.map(({ headers }) => headers.forwarded)).toEqual([
        `for=${refusedAddress}`,
        `for=${others[0]}`,
      ])
      // Each request is one lookup.
      expect(await counted(gateway, lookups('miss'))).toBe(1)
      expect(await counted(gateway, lookups('collapsed'))).toBe(6)
      expect(
        (await asking(gateway.url, '0.1', at(others[3]))).headers['cache-status'],
      ).toContain('hit')
      expect(unhandled).toEqual([])
    },
  )

  it.each([302, 408, 429, 500, 503])(
    'is not what %i is: that goes to all that wait',
    async (status) => {
      const { upstream, call, beginner, joiners } = await joinedBy(others)
      refuse(call(0), status)
      expect(await statuses([beginner, ...joiners])).toEqual(Array(6).fill(status))
      expect(upstream.requests).toHaveLength(1)
    },
  )
})

describe('a further call after a refusal', () => {
  it('counts for the address that makes it, and not for those that share it', async () => {
    const limits = {
      ...sharedBy.header,
      RATE_LIMIT_PER_MINUTE: '1',
      RATE_LIMIT_BY: 'client-ip',
    }
    const { call, called, from, beginner, joiners } = await joinedBy(
      others.slice(0, 3),
      limits,
    )
    refuse(call(0))
    expect((await beginner).status).toBe(403)
    await called(2)
    giveQuote(call(1))
    expect(await statuses(joiners)).toEqual([200, 200, 200])
    expect((await from(others[0], '0.2')).status).toBe(429)
    const sharing = from(others[1], '0.2')
    await called(3)
    giveQuote(call(2))
    expect((await sharing).status).toBe(200)
  })

  it('that the provider answers with 429 goes to all who wait, and its own user makes no other for a while', async () => {
    const { upstream, call, called, from, beginner, joiners } = await joinedBy(others)
    refuse(call(0))
    await beginner
    await called(2)
    call(1).writeHead(429, { 'Retry-After': '30' }).end('slow down')
    expect(await statuses(joiners)).toEqual(Array(5).fill(429))
    const next = await from(others[0])
    expect([next.status, JSON.parse(next.body).type]).toEqual([
      429,
      'urn:quotegate:problem:provider-limit',
    ])
    expect(upstream.requests).toHaveLength(2)
  })
})
