import { test } from 'vitest'
import { gatewayWith, quote } from '../operations/support.ts'
import { expectAccessible } from './axe.ts'
import { describeInBrowser, openPage, useBrowser } from './browser.ts'

useBrowser()

describeInBrowser('the console', () => {
  test.each([1440, 1024, 360])('axe-core finds no violation: %d px, dark and light', async (width) => {
    const gateway = await gatewayWith()
    const { page } = await openPage(gateway.operationsUrl, {
      viewport: { width, height: 900 },
      colorScheme: 'dark',
    })
    await quote(gateway)
    await page.locator('#requests tbody tr').first().waitFor()
    await expectAccessible(page)
    await page.emulateMedia({ colorScheme: 'light' })
    await expectAccessible(page)
  })
})
