import { expect, test } from 'vitest'
import { act, floatOrder, statusOf } from '../operations/support.ts'
import { gatewayWith } from '../support/gateways/between.ts'
import { describeInBrowser, expectAccessible, openPage, useBrowser } from './browser.ts'

useBrowser()

describeInBrowser('the console', () => {
  test('holds orders by a form, has a banner that stays in sight, and releases them', async () => {
    const gateway = await gatewayWith()
    const { page } = await openPage(gateway.operationsUrl)
    const form = page.locator('#hold form')
    await form.locator('[name="pair"]').fill('ETH_USDC')
    await form.locator('[name="reason"]').fill('<b>a wrong price</b>')
    await form.locator('[name="minutes"]').fill('45')
    await form.locator('[name="quotes"]').check()
    await form.getByRole('button', { name: 'Hold' }).click()
    const banner = page.locator('#holds .hold')
    await banner.waitFor()
    expect(await banner.textContent()).toMatch(
      /HELD: Quotes and orders of ETH_USDC\..*<b>a wrong price<\/b> · since .+, until /s,
    )
    const [hold] = (await statusOf(gateway)).holds
    expect([hold.quotes, hold.until - hold.since]).toEqual([true, 2_700_000])
    expect(await floatOrder(gateway)).toBe(503)
    await expectAccessible(page, [360, 1440])
    await page.evaluate('scrollTo(0, document.body.scrollHeight)')
    const box = await banner.boundingBox()
    expect(box?.y).toBeGreaterThanOrEqual(0)
    await banner.getByRole('button', { name: 'Release' }).click()
    await banner.waitFor({ state: 'detached' })
    expect((await statusOf(gateway)).holds).toEqual([])
  })

  test('says what is held to who may change nothing, and has no form for them', async () => {
    const gateway = await gatewayWith({ ADMIN_TOKEN: 'correct-horse-battery' })
    const bearer = { Authorization: 'Bearer correct-horse-battery' }
    await act(gateway, 'hold', { reason: 'maintenance', minutes: 5 }, bearer)
    const { page } = await openPage(gateway.operationsUrl)
    const banner = page.locator('#holds .hold')
    await banner.waitFor()
    expect(await banner.textContent()).toContain('Orders of all pairs')
    expect(await page.locator('#hold, #holds button').count()).toBe(0)
  })
})
