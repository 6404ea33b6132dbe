import { mkdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { environment } from '../support/machine/environment.ts'
import { describeInBrowser, expectPeace, openPage, useBrowser } from './browser.ts'
import { createScene, type SceneTimes } from './picture-scene.ts'

/** `npm run pictures` renews those of the README; else they are only taken, so that a bad one fails. */
const isRenewing = environment().CONSOLE_PICTURES === 'renew'
const folder = '../../docs/images/'
const times: SceneTimes = isRenewing
  ? { trafficMs: 20_000, outageMs: 8_000 }
  : { trafficMs: 1_500, outageMs: 1_500 }

const pictures = [
  { name: 'dark', colorScheme: 'dark', width: 1440, height: 900 },
  { name: 'light', colorScheme: 'light', width: 1440, height: 900 },
  { name: 'narrow', colorScheme: 'dark', width: 360, height: 760 },
  { name: 'outage', colorScheme: 'dark', width: 1440, height: 900, isInOutage: true },
  { name: 'outage-narrow', colorScheme: 'dark', width: 360, height: 760, isInOutage: true },
] as const
/** Two show what goes wrong at either width; five take a minute. */
const shown = isRenewing
  ? pictures
  : pictures.filter(({ name }) => name === 'dark' || name === 'outage-narrow')

function pathOf(name: string): { path?: string } {
  if (!isRenewing) return {}
  const path = fileURLToPath(new URL(`${folder}console-${name}.png`, import.meta.url))
  mkdirSync(new URL(folder, import.meta.url), { recursive: true })
  return { path }
}

useBrowser()

// Each waits for half a minute of traffic, and the browser of a busy machine draws slowly.
const patience = isRenewing ? { timeout: 300_000 } : {}

describeInBrowser('the console at work', () => {
  test.each(shown)('is taken without an error on the page: $name', patience, async (picture) => {
    const { name, colorScheme, width, height } = picture
    const { gateway, outage } = await createScene(times)
    const watched = await openPage(gateway.operationsUrl, { viewport: { width, height }, colorScheme })
    const { page } = watched
    if ('isInOutage' in picture) {
      await outage.begin()
      await page.waitForTimeout(times.outageMs)
    } else {
      const ask = page.getByRole('button', { name: 'Ask for a quote' })
      for (let asked = 1; asked <= 2; asked += 1) {
        await ask.click()
        await expect.poll(() => page.locator('#try .steps li').count()).toBe(asked)
      }
    }
    await page.evaluate('scrollTo(0, 0)')
    await page.mouse.move(4, 4)
    await page.waitForTimeout(1_200)
    const shot = await page.screenshot(pathOf(name))
    expect(shot.length).toBeGreaterThan(20_000)
    expect(shot.length).toBeLessThan(400_000)
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
    expect(await contrasts(page)).toEqual([])
    expectPeace(watched, gateway.operationsUrl)
  })
})

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
