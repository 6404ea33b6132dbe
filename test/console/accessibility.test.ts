import { test } from 'vitest'
import { gatewayWith, quote } from '../operations/support.ts'
import { expectAccessible } from './axe.ts'
import { describeInBrowser, openPage, useBrowser } from './browser.ts'

useBrowser()

describeInBrowser('the console', () => {
  test.each([
    { width: 1440, colorScheme: 'dark' },
    { width: 1440, colorScheme: 'light' },
    { width: 1024, colorScheme: 'dark' },
    { width: 1024, colorScheme: 'light' },
    { width: 360, colorScheme: 'dark' },
    { width: 360, colorScheme: 'light' },
  ] as const)('has nothing for axe-core to find: $width px, $colorScheme', async ({ width, colorScheme }) => {
    const gateway = await gatewayWith()
    const { page } = await openPage(gateway.operationsUrl, { viewport: { width, height: 900 }, colorScheme })
    await quote(gateway)
    await page.locator('#requests tbody tr').first().waitFor()
    await expectAccessible(page)
  })
})
