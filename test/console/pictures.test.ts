import { mkdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { act, floatOrder, gatewayWith, quote } from '../operations/support.ts'
import { pause } from '../support/gateways/between.ts'
import { environment } from '../support/machine/environment.ts'
import { describeInBrowser, expectPeace, openPage, useBrowser } from './browser.ts'

/** `npm run pictures` renews those of the README; else they are only taken, so that a bad one fails. */
const folder = environment().CONSOLE_PICTURES === 'renew' ? '../../docs/images/' : undefined

function pathOf(name: string): { path?: string } {
  if (folder === undefined) return {}
  const path = fileURLToPath(new URL(`${folder}console-${name}.png`, import.meta.url))
  mkdirSync(new URL(folder, import.meta.url), { recursive: true })
  return { path }
}

useBrowser()

describeInBrowser('the console at work', () => {
  test.each([
    { name: 'dark', colorScheme: 'dark', width: 1180, height: 760 },
    { name: 'light', colorScheme: 'light', width: 1180, height: 760 },
    { name: 'narrow', colorScheme: 'dark', width: 360, height: 760 },
  ] as const)('is a picture without a complaint: $name', async ({ name, colorScheme, width, height }) => {
    const gateway = await gatewayWith({ TRUST_PROXY: 'loopback', QUOTE_PARTITION: 'none' })
    await act(gateway, 'faults', { latencyMs: 25, quoteLifetimeMs: 600 })
    await quote(gateway, { application: 'wallet-ios' })
    await pause(1_800)
    await floatOrder(gateway, { application: 'wallet-ios' })
    await act(gateway, 'faults', { quoteLifetimeMs: 14_000 })

    const traffic = busy(gateway)
    onTestFinished(traffic.stop)
    const watched = await openPage(gateway.operationsUrl, { viewport: { width, height }, colorScheme })
    const { page } = watched
    await page.waitForTimeout(folder === undefined ? 2_500 : 25_000)
    const ask = page.getByRole('button', { name: 'Ask for a quote' })
    for (let asked = 1; asked <= 2; asked += 1) {
      await ask.click()
      await expect.poll(() => page.locator('#try .steps li').count()).toBe(asked)
    }
    await page.evaluate('scrollTo(0, 0)')
    await page.mouse.move(4, 4)
    await page.waitForTimeout(400)
    const picture = await page.screenshot(pathOf(name))
    expect(picture.length).toBeGreaterThan(20_000)
    expect(picture.length).toBeLessThan(250_000)
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
    expect(await contrasts(page)).toEqual([])
    expectPeace(watched, gateway.operationsUrl)
  })
})

function busy(gateway: Awaited<ReturnType<typeof gatewayWith>>): { stop(): void } {
  const pairs = ['ETH_USDC', 'BTC_USDC', 'SOL_USDT', 'BTC_ETH', 'ETH_BTC']
  const amounts = ['0.1', '0.25', '1', '2.5']
  let number = 0
  const timer = setInterval(() => {
    number += 1
    const pair = pairs[Math.floor((number * 7) % 13) % pairs.length] ?? ''
    const amount = amounts[Math.floor((number * 5) % 11) % amounts.length] ?? ''
    quote(gateway, { pair, amount, application: 'wallet-ios' }).catch(() => {})
    if (number % 17 === 0)
      fetch(`${gateway.url}/checkouts?limit=1`, { headers: { Authorization: 'Bearer k' } }).catch(() => {})
    if (number % 41 === 0) fetch(`${gateway.url}/v3/pairs/ETH_USDC/quotes?amount=0`).catch(() => {})
  }, 60)
  return { stop: () => clearInterval(timer) }
}

/** Texts that stand out from their ground by less than 4.5 to 1 (WCAG 2.2, 1.4.3). */
function contrasts(page: Awaited<ReturnType<typeof openPage>>['page']): Promise<string[]> {
  return page.evaluate(`(() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
    const rgba = (color) => {
      canvas.clearRect(0, 0, 1, 1)
      canvas.fillStyle = color
      canvas.fillRect(0, 0, 1, 1)
      return [...canvas.getImageData(0, 0, 1, 1).data]
    }
    const over = ([r, g, b, a], under) => [r, g, b].map((value, i) => (value * a + under[i] * (255 - a)) / 255)
    const groundOf = (node) => {
      if (node === null) return [255, 255, 255]
      const color = rgba(getComputedStyle(node).backgroundColor)
      return color[3] === 255 ? color.slice(0, 3) : over(color, groundOf(node.parentElement))
    }
    const light = (rgb) => {
      const [r, g, b] = rgb.map((value) => value / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
      return 0.2126 * r + 0.7152 * g + 0.0722 * b
    }
    const faint = new Set()
    for (const node of document.querySelectorAll('body *')) {
      const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim() !== '')
      if (!own || node.getClientRects().length === 0 || node.closest('noscript, option')) continue
      const ground = groundOf(node)
      const pair = [light(over(rgba(getComputedStyle(node).color), ground)), light(ground)].sort((a, b) => b - a)
      const ratio = (pair[0] + 0.05) / (pair[1] + 0.05)
      if (ratio < 4.5) faint.add(node.className + ' "' + node.textContent.trim().slice(0, 20) + '" ' + ratio.toFixed(2))
    }
    return [...faint]
  })()`)
}
