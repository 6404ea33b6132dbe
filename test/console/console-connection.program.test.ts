import { createServer } from 'node:http'
import express from 'express'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { floatOrder, framesOf, look, production, quote } from '../operations/support.ts'
import { gatewayWith, until } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { listening } from '../support/machine/listening.ts'
import { describeInBrowser, expectAccessible, openPage, useBrowser } from './browser.ts'

useBrowser()

/** These, and what no viewer without rights may use. */
async function expectHidden(page: Page, selectors: readonly string[]): Promise<void> {
  for (const hidden of ['#try form', '#orders form', '#sandbox', ...selectors])
    expect(await page.locator(hidden).isVisible(), hidden).toBe(false)
}

describeInBrowser('the console', () => {
  test('finds the gateway again after a restart', async () => {
    const first = await startGateway()
    const port = Number(new URL(first.operationsUrl).port)
    const { page } = await openPage(first.operationsUrl, { mayComplain: true })
    await first.close()
    await page.locator('#connection[data-state="waiting"]').waitFor()
    const second = await gatewayWith({ ADMIN_PORT: port })
    await page.locator('#connection[data-state="live"]').waitFor()
    await quote(second, { pair: 'BTC_USDC' })
    await page.locator('#quotes tbody tr[data-pair="BTC_USDC"]').waitFor()
  })

  test('works below a path of another app, also where the final slash is left out', async () => {
    const gateway = await gatewayWith()
    const outer = createServer(express().use('/tools/console', gateway.operations))
    const { url: origin } = await listening(outer)
    const { page } = await openPage(`${origin}/tools/console`)
    expect(page.url()).toBe(`${origin}/tools/console/`)
    await page.getByRole('button', { name: 'Ask for a quote' }).click()
    await page.locator('#quotes tbody tr[data-pair="ETH_USDC"]').waitFor()
  })

  test('stops while it is paused, and then shows the current state', async () => {
    const gateway = await gatewayWith()
    const { page } = await openPage(gateway.operationsUrl)
    await page.getByRole('button', { name: 'Pause' }).click()
    await quote(gateway)
    const seen = await look(gateway.operationsUrl)
    await framesOf(seen, 3)
    await seen.leave()
    expect(await page.locator('#quotes tbody tr').count()).toBe(0)
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.locator('#quotes tbody tr').waitFor()
  })

  test('asks for the ADMIN_TOKEN before it shows requests, and reports a wrong token', async () => {
    const token = 'correct-horse-battery'
    const gateway = await gatewayWith({
      ...production,
      ADMIN_TOKEN: token,
      ORDER_UNKNOWN_QUOTE: 'refuse',
    })
    await floatOrder(gateway, { application: 'secret-app', pair: 'SECRET_PAIR' })
    const { page, complaints } = await openPage(gateway.operationsUrl, {
      mayComplain: true,
    })
    await page.locator('.notice', { hasText: 'Unlock with the ADMIN_TOKEN' }).waitFor()
    await expectHidden(page, ['#requests', '#orders .group', '#quotes thead td'])
    await page.locator('#orders tbody tr.opens').first().click()
    expect(await page.locator('#orders .detail').textContent()).toContain('No live quote')
    expect(await page.content()).not.toMatch(/secret/i)
    await expectAccessible(page, [1280])
    for (const [given, expected] of [
      [`${token}\u200b`, 'visible ASCII characters only'],
      ['wrong-wrong-wrong-wrong', 'That is not the ADMIN_TOKEN.'],
      [token, undefined],
    ] as const) {
      await page.locator('#unlock').click()
      await page.fill('dialog input', given)
      await page.keyboard.press('Enter')
      if (expected) await page.locator('.notice', { hasText: expected }).waitFor()
    }
    for (const shown of ['#try form', '#orders form', '#requests'])
      await page.locator(shown).waitFor()
    await page
      .locator('#orders .group', { hasText: 'secret-app: 1 of 1 order match' })
      .waitFor()
    await quote(gateway)
    await page.locator('#requests tbody tr', { hasText: 'ETH_USDC' }).waitFor()
    // The browser itself reports the answer to the wrong one.
    expect(complaints.filter((text) => !text.includes('401'))).toEqual([])
  })

  test('is read-only in production without a token', async () => {
    const gateway = await gatewayWith(production)
    const { page } = await openPage(gateway.operationsUrl)
    await page.locator('.notice', { hasText: 'Read-only' }).waitFor()
    await quote(gateway)
    await page
      .locator('[data-tile="requests"] .more', { hasText: /^1 in the last/ })
      .waitFor()
    await expectHidden(page, [
      '#requests tbody tr',
      '#unlock',
      '#quotes [data-role="drop-all"]',
    ])
  })

  // A browser has few connections to one host: six tabs in the background kept the seventh from ever loading.
  test.each(['hidden', 'opened in the background'])(
    'sends no more requests a while after its tab was %s, until it is looked at',
    async (how) => {
      const gateway = await gatewayWith()
      const { page } = await openPage(gateway.operationsUrl)
      const hide = `Object.defineProperty(document, 'hidden', { value: true, configurable: true })`
      const changed = `document.dispatchEvent(new Event('visibilitychange'))`
      if (how === 'hidden') {
        await page.clock.install()
        await page.evaluate(`${hide};${changed}`)
      } else {
        await page.addInitScript(hide)
        await page.clock.install()
        await page.reload()
        await page.locator('#connection[data-state="live"]').waitFor()
      }
      await page.clock.fastForward(11_000)
      await page.locator('#connection[data-state="waiting"]').waitFor()
      const streams: string[] = []
      page.on('request', (request) => streams.push(request.url()))
      await page.clock.fastForward(60_000)
      // What the page had asked for by now was asked for before this.
      await page.evaluate(`fetch('healthz')`)
      expect(streams.filter((url) => url.endsWith('/stream'))).toEqual([])
      await page.evaluate(`delete document.hidden;${changed}`)
      await until(() => streams.some((url) => url.endsWith('/stream')), 'it looks again')
    },
  )
})
