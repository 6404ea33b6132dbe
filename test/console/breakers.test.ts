import { expect, test } from 'vitest'
import { gatewayWith } from '../operations/support.ts'
import { giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { aSecond, recordingUpstream } from '../support/gateways/between.ts'
import { describeInBrowser, expectPeace, openPage, useBrowser } from './browser.ts'

useBrowser()

describeInBrowser('the console', () => {
  test('says what an open breaker stops: single pairs or one kind, and nothing that is still sent', async () => {
    const upstream = await recordingUpstream(({ target }, response) => {
      if (target.includes('BTC_USDC')) giveQuote(response, quoteBody({ expiry: Date.now() + 600_000 }))
      else response.writeHead(503).end()
    })
    const gateway = await gatewayWith({
      SWAP_BASE_URL: upstream.url,
      breakerFailures: 2,
      breakerOpenMs: 600_000,
    })
    const { page, ...watched } = await openPage(gateway.operationsUrl)
    const item = page.locator('[data-item="upstream-swap"]')
    const shown = () => item.textContent()
    const tone = () => item.locator('.dot').getAttribute('class')
    const headers = { 'App-Name': 'demo' }
    const fail = async (path: string) => {
      await fetch(`${gateway.url}${path}?amount=1`, { headers })
      await aSecond()
      await fetch(`${gateway.url}${path}?amount=2`, { headers })
    }
    await expect.poll(shown).toContain('breakers closed')
    await fail('/v3/pairs/ETH_USDC/quotes')
    await expect.poll(shown).toContain('all quotes fail (1 of 1 pair)')
    expect(await tone()).toBe('dot bad')
    await fetch(`${gateway.url}/v3/pairs/BTC_USDC/quotes?amount=1`, { headers })
    await expect.poll(shown).toContain('1 pair stopped')
    expect(await tone()).toBe('dot warn')
    await fail('/v3/assets')
    await expect.poll(shown).toMatch(/rest stopped, next try in .+; 1 pair stopped/)
    expect(await tone()).toBe('dot bad')
    const answer = await fetch(`${gateway.operationsUrl}/status`)
    const status = (await answer.json()) as { upstreams: unknown[] }
    expect(status.upstreams[0]).toMatchObject({ name: 'swap', openPairs: 1 })
    expectPeace({ page, ...watched }, gateway.operationsUrl)
  })

  test("says which clients' quotes are not requested, because the provider answered 429", async () => {
    const upstream = await recordingUpstream((_request, response) => {
      response.writeHead(429, { 'Retry-After': '30' }).end()
    })
    const gateway = await gatewayWith({ SWAP_BASE_URL: upstream.url, TRUST_PROXY: 'loopback' })
    const { page, ...watched } = await openPage(gateway.operationsUrl)
    const item = page.locator('[data-item="upstream-swap"]')
    const shown = () => item.textContent()
    const askFrom = (address: string) =>
      fetch(`${gateway.url}/v3/pairs/ETH_USDC/quotes?amount=1`, {
        headers: { 'App-Name': 'demo', Forwarded: `for=${address}` },
      })
    await askFrom('192.0.2.1')
    await expect.poll(shown).toMatch(/429: quotes of 1 client not requested for .+ at most/)
    expect(await item.locator('.dot').getAttribute('class')).toBe('dot warn')
    await askFrom('192.0.2.2')
    await expect.poll(shown).toMatch(/429: quotes of 2 clients not requested for .+ at most/)
    expectPeace({ page, ...watched }, gateway.operationsUrl)
  })
})
