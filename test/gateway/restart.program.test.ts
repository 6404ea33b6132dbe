import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type GivenQuote, termsOf } from '../support/clients/orders.ts'
import { restartStage, type StartedGateway } from '../support/gateways/restarts.ts'

/** A later order of the same user, which does not say what it expects to get. */
const openTermsOf = (quote: GivenQuote) => ({ ...termsOf(quote), toAmount: undefined })

describe.each(['a clean end', 'kill -9'])('after %s', (how) => {
  type Stage = { kill(gateway: StartedGateway): Promise<void> }
  const end = (stage: Stage, gateway: StartedGateway) =>
    how === 'kill -9' ? stage.kill(gateway) : gateway.close()

  test('an order for an expired quote is refused, and one for a live quote is sent', async () => {
    const stage = await restartStage()
    const first = await stage.start()
    // So many digits identify a restored quote even after an end that was not clean.
    stage.provider.quote = { toAmount: { assetId: 'USDC', value: '289.64512' } }
    const expired = await first.quote('0.1')
    stage.clock.advance(20_000)
    stage.provider.quote = { toAmount: { assetId: 'USDC', value: '579.291' } }
    const live = await first.quote('0.2')
    await end(stage, first)
    stage.clock.advance(10_000)

    const second = await stage.start()
    const refused = await second.order(termsOf(expired))
    expect(refused.status).toBe(409)
    expect(JSON.parse(refused.body.toString())).toMatchObject({
      quoteId: expired.id,
      expiredForMs: 0,
    })
    expect(
      (await second.order({ ...termsOf(expired), quoteId: expired.id })).status,
    ).toBe(409)
    expect(stage.arrived()).toEqual([])
    expect((await second.order(termsOf(live))).status).toBe(201)
    expect(await second.state()).toMatchObject({ restored: 2, skipped: 0, setAside: 0 })
  })

  test('a quote that an order used is not handed out again', async () => {
    const stage = await restartStage()
    stage.provider.quote = { id: 'used' }
    const first = await stage.start()
    const used = await first.quote()
    expect((await first.order(termsOf(used))).status).toBe(201)
    await end(stage, first)

    const second = await stage.start()
    stage.provider.quote = { id: 'used', expiry: used.expiry }
    await second.quote()
    await second.quote()
    const asked = stage.upstream.requests.filter(({ method }) => method === 'GET')
    expect(asked).toHaveLength(3)
  })

  test('a quote from before, which the provider gives again and an order uses, is not handed out again', async () => {
    const stage = await restartStage()
    stage.provider.quote = { id: 'given' }
    const first = await stage.start()
    const given = await first.quote()
    await end(stage, first)

    const second = await stage.start()
    stage.provider.quote = { id: 'given', expiry: given.expiry }
    for (let times = 0; times < 2; times += 1) await second.quote()
    const asked = () => stage.upstream.requests.filter(({ method }) => method === 'GET')
    // The second one is a hit.
    expect(asked()).toHaveLength(2)
    expect((await second.order(termsOf(given))).status).toBe(201)
    stage.provider.quote = { id: 'new' }
    expect((await second.quote()).id).toBe('new')
    expect(asked()).toHaveLength(3)
  })

  test('a user who received an unreadable answer is not refused for an older quote', async () => {
    const stage = await restartStage()
    const first = await stage.start()
    const older = await first.quote()
    stage.clock.advance(30_000)
    stage.provider.quote = { expiry: undefined }
    await first.quote()
    await end(stage, first)
    const second = await stage.start()
    expect((await second.order(termsOf(older))).status).toBe(201)
  })
})

// Orders for quotes that were given since then are judged as usual.
test('after an end that was not clean, for the lifetime of a quote, orders are refused only by eight digits', async () => {
  const stage = await restartStage()
  stage.provider.quote = { toAmount: { assetId: 'USDC', value: '289.64512' } }
  const first = await stage.start()
  const quote = await first.quote()
  await stage.kill(first)
  stage.clock.advance(40_000)
  const second = await stage.start()
  expect((await second.order(openTermsOf(quote))).status).toBe(201)
  expect((await second.order({ ...termsOf(quote), toAmount: 288.1 })).status).toBe(201)
  expect((await second.order(termsOf(quote))).status).toBe(409)
  expect((await second.order({ ...termsOf(quote), toAmount: 289.645 })).status).toBe(201)
  expect((await second.order({ ...openTermsOf(quote), quoteId: quote.id })).status).toBe(
    409,
  )
  const page = await second.metrics()
  expect(page).toContain(
    'quotegate_float_order_matches_total{decision="unknown",rule="restored"} 3',
  )

  stage.provider.lifeMs = 1_000
  const newer = await second.quote('0.2')
  stage.clock.advance(1_000)
  expect((await second.order(openTermsOf(newer))).status).toBe(409)

  stage.clock.advance(28_999)
  expect((await second.order(openTermsOf(quote))).status).toBe(201)
  stage.clock.advance(1)
  expect((await second.order(openTermsOf(quote))).status).toBe(409)
})

describe('the time after a restart', () => {
  test.each([
    // Our clock and the answer's Date disagree about when the quote is over, and a minute after the first decides.
    ["ahead of the provider's", -3_600_000, 30_000],
    ["behind the provider's", 3_600_000, 90_000],
  ])(
    'our clock is %s: an order is refused as late as before it',
    async (_, offsetMs, refusedAfterMs) => {
      const stage = await restartStage()
      stage.provider.offsetMs = offsetMs
      const first = await stage.start()
      const quote = await first.quote()
      await first.close()
      stage.clock.advance(refusedAfterMs - 1)
      const second = await stage.start()
      expect((await second.order(termsOf(quote))).status).toBe(201)
      await second.close()
      stage.clock.advance(1)
      const third = await stage.start()
      expect((await third.order(termsOf(quote))).status).toBe(409)
    },
  )

  test('our wall clock shows less than at the last write: restored quotes refuse an order only by their id or eight digits', async () => {
    const stage = await restartStage()
    const first = await stage.start()
    const quote = await first.quote()
    stage.clock.advance(40_000)
    // Something is written now.
    stage.provider.quote = { fromAmount: { assetId: 'ETH', value: '0.2' } }
    await first.quote('0.2')
    await first.close()
    stage.clock.advance(-5_000)
    stage.provider.offsetMs = 5_000
    const second = await stage.start()
    expect((await second.order(termsOf(quote))).status).toBe(201)
    expect((await second.order({ ...termsOf(quote), quoteId: quote.id })).status).toBe(
      409,
    )
    stage.clock.advance(30_000)
    expect((await second.order(termsOf(quote))).status).toBe(409)
  })
})

test('cache keys, which identify users, are not in the folder', async () => {
  const stage = await restartStage()
  const first = await stage.start()
  await first.quote()
  await first.written()
  const files = readdirSync(stage.folder).filter((name) => name.endsWith('.ndjson'))
  // The first line of each says the address of the provider.
  const content = files.flatMap((name) =>
    readFileSync(join(stage.folder, name), 'latin1').split('\n').slice(1),
  )
  expect(content.join('')).toContain('ETH_USDC')
  expect(content.join('')).not.toContain('127.0.0.1')
})
