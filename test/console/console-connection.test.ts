import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { expect, onTestFinished, test } from 'vitest'
import { gatewayWith, production, quote } from '../operations/support.ts'
import { until } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { freePort } from '../support/machine/free-port.ts'
import { valkey } from '../support/stores/valkey.ts'
import { describeInBrowser, expectPeace, openPage, useBrowser } from './browser.ts'

useBrowser()

describeInBrowser('the console', () => {
  test('finds the gateway again after a restart', async () => {
    const first = await startGateway()
    const port = Number(new URL(first.operationsUrl).port)
    const { page } = await openPage(first.operationsUrl)
    await first.close()
    await page.locator('#connection[data-state="waiting"]').waitFor()
    const second = await startGateway({ ADMIN_PORT: port })
    onTestFinished(() => second.close())
    await page.locator('#connection[data-state="live"]').waitFor()
    await quote(second, { pair: 'BTC_USDC' })
    await page.locator('#quotes tbody tr[data-pair="BTC_USDC"]').waitFor()
  })

  test('works below a path of another app, also where the final slash is left out', async () => {
    const gateway = await gatewayWith()
    const outer = createServer(express().use('/tools/console', gateway.operations))
    await new Promise<void>((resolve) => outer.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      outer.close()
      outer.closeAllConnections()
    })
    const origin = `http://127.0.0.1:${(outer.address() as AddressInfo).port}`
    const { page, ...watched } = await openPage(`${origin}/tools/console`)
    expect(page.url()).toBe(`${origin}/tools/console/`)
    await page.getByRole('button', { name: 'Ask for a quote' }).click()
    await page.locator('#quotes tbody tr[data-pair="ETH_USDC"]').waitFor()
    expectPeace({ page, ...watched }, origin)
  })

  test('stops while it is paused, and then shows the current state', async () => {
    const gateway = await gatewayWith()
    const { page } = await openPage(gateway.operationsUrl)
    await page.getByRole('button', { name: 'Pause' }).click()
    await quote(gateway)
    await page.waitForTimeout(2_200)
    expect(await page.locator('#quotes tbody tr').count()).toBe(0)
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.locator('#quotes tbody tr').waitFor()
  })

  test('asks for the ADMIN_TOKEN before it shows requests, and reports a wrong token', async () => {
    const gateway = await gatewayWith({ ...production, ADMIN_TOKEN: 'correct-horse-battery' })
    const { page, complaints } = await openPage(gateway.operationsUrl)
    await page.locator('.notice', { hasText: 'Unlock with the ADMIN_TOKEN' }).waitFor()
    expect(await page.locator('#try form').isVisible()).toBe(false)
    for (const [token, expected] of [
      ['correct-horse-battery\u200b', 'visible ASCII characters only'],
      ['wrong-wrong-wrong-wrong', 'That is not the ADMIN_TOKEN.'],
      ['correct-horse-battery', undefined],
    ] as const) {
      await page.locator('#unlock').click()
      await page.fill('dialog input', token)
      await page.keyboard.press('Enter')
      if (expected) await page.locator('.notice', { hasText: expected }).waitFor()
    }
    await page.locator('#try form').waitFor()
    await quote(gateway)
    await page.locator('#requests tbody tr', { hasText: 'ETH_USDC' }).waitFor()
    // The browser itself reports the answer to the wrong one.
    expect(complaints.filter((text) => !text.includes('401'))).toEqual([])
  })

  test('is read-only in production without a token', async () => {
    const gateway = await gatewayWith(production)
    const watched = await openPage(gateway.operationsUrl)
    const { page } = watched
    await page.locator('.notice', { hasText: 'Read-only' }).waitFor()
    await quote(gateway)
    await page.locator('[data-tile="requests"] .more', { hasText: /^1 in the last/ }).waitFor()
    expect(await page.locator('#requests tbody tr').count()).toBe(0)
    for (const hidden of [
      '#try form',
      '#orders form',
      '#sandbox',
      '#unlock',
      '#quotes [data-role="drop-all"]',
    ]) {
      expect(await page.locator(hidden).isVisible(), hidden).toBe(false)
    }
    expectPeace(watched, gateway.operationsUrl)
  })

  test('tells a new team that it forgot TRUST_PROXY', async () => {
    const gateway = await gatewayWith()
    const { page } = await openPage(gateway.operationsUrl)
    await fetch(`${gateway.url}/v3/pairs/ETH_USDC/quotes?amount=1`, {
      headers: { 'App-Name': 'demo', Forwarded: 'for=198.51.100.7' },
    })
    await page
      .locator('.outage', { hasText: '127.0.0.1 sent a client-address header but is not in TRUST_PROXY' })
      .waitFor()
  })

  test('tells a new team that its trusted proxy sends another header than CLIENT_IP_HEADER', async () => {
    const gateway = await gatewayWith({ TRUST_PROXY: 'loopback' })
    const { page } = await openPage(gateway.operationsUrl)
    await fetch(`${gateway.url}/v3/pairs/ETH_USDC/quotes?amount=1`, {
      headers: { 'App-Name': 'demo', 'X-Forwarded-For': '198.51.100.7' },
    })
    await page
      .locator('.outage', {
        hasText:
          /^127\.0\.0\.1 is trusted and sends X-Forwarded-For, but CLIENT_IP_HEADER is forwarded since .+ 1 request so far\. What to do$/i,
      })
      .waitFor()
  })

  test('shows in its header that the shared store is down, and when it is back', {
    tags: ['redis-server'],
  }, async () => {
    const port = await freePort()
    const gateway = await gatewayWith({ VALKEY_URL: `redis://127.0.0.1:${port}` })
    const watched = await openPage(gateway.operationsUrl)
    await watched.page.getByText('store: valkey, down').waitFor()
    await valkey({ port })
    await watched.page.getByText('store: valkey', { exact: true }).waitFor()
    expectPeace(watched, gateway.operationsUrl)
  })

  test('sends no more requests a while after its tab was hidden', async () => {
    const gateway = await gatewayWith()
    const { page } = await openPage(gateway.operationsUrl)
    await page.clock.install()
    await page.evaluate(`Object.defineProperty(document, 'hidden', { value: true, configurable: true })
      document.dispatchEvent(new Event('visibilitychange'))`)
    await page.clock.fastForward(11_000)
    await page.locator('#connection[data-state="waiting"]').waitFor()
    const streams: string[] = []
    page.on('request', (request) => streams.push(request.url()))
    await page.clock.fastForward(60_000)
    expect(streams).toEqual([])
    await page.evaluate(`delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))`)
    await until(() => streams.some((url) => url.endsWith('/stream')), 'it looks again')
  })
  // A browser has few connections to one host: six such tabs kept the seventh from ever loading.
  test('sends no more requests a while after its tab was opened in the background', async () => {
    const gateway = await gatewayWith()
    const { page } = await openPage(gateway.operationsUrl)
    await page.addInitScript(`Object.defineProperty(document, 'hidden', { value: true })`)
    await page.clock.install()
    await page.reload()
    await page.locator('#connection[data-state="live"]').waitFor()
    await page.clock.fastForward(11_000)
    await page.locator('#connection[data-state="waiting"]').waitFor()
    const streams: string[] = []
    page.on('request', (request) => streams.push(request.url()))
    await page.clock.fastForward(60_000)
    expect(streams).toEqual([])
  })
})
