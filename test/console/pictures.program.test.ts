import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { expect, onTestFinished, test } from 'vitest'
import { act, floatOrder, quote } from '../operations/support.ts'
import { gatewayWith, pause } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import { environment } from '../support/machine/environment.ts'
import { describeInBrowser, expectAccessible, openPage, useBrowser } from './browser.ts'

/** `npm run pictures` renews those of the README; else one of them is only taken, so that a bad one fails. */
const isRenewing = environment().CONSOLE_PICTURES === 'renew'
const folder = '../../docs/images/'
/** How long each part of the scene lasts. */
const times = isRenewing
  ? { trafficMs: 20_000, outageMs: 8_000 }
  : { trafficMs: 1_500, outageMs: 1_500 }

const pictures = [
  { name: 'dark', colorScheme: 'dark', width: 1440, height: 900, isInOutage: false },
  { name: 'light', colorScheme: 'light', width: 1440, height: 900, isInOutage: false },
  { name: 'narrow', colorScheme: 'dark', width: 360, height: 760, isInOutage: false },
  { name: 'outage', colorScheme: 'dark', width: 1440, height: 900, isInOutage: true },
  {
    name: 'outage-narrow',
    colorScheme: 'dark',
    width: 360,
    height: 760,
    isInOutage: true,
  },
] as const

function pathOf(name: string): { path?: string } {
  if (!isRenewing) return {}
  const path = fileURLToPath(new URL(`${folder}console-${name}.png`, import.meta.url))
  mkdirSync(new URL(folder, import.meta.url), { recursive: true })
  return { path }
}

/** The words of the page when the pictures were taken, a line each. */
const wordsFile = new URL(`${folder}console-words.txt`, import.meta.url)

/** What the page calls its parts, whatever happens in them. */
async function wordsOf(page: Page): Promise<string> {
  const named = 'h1, h2, h3, th, label, legend, summary, .tile-text > div:first-child'
  const texts = await page.locator(named).allTextContents()
  const words = texts
    .map((text) => text.replace(/\s+/g, ' ').trim())
    .filter((text) => text !== '' && !/\d/.test(text))
  return `${[...new Set(words)].sort().join('\n')}\n`
}

/** The sandbox answers all requests to the swap API with 503, or none. */
async function setOutage(gateway: RunningGateway, isDown: boolean): Promise<void> {
  await act(
    gateway,
    'faults',
    isDown ? { errorRate: 1, scope: 'swap' } : { errorRate: 0, scope: 'all' },
  )
}

/** A gateway with traffic, refused orders, and an outage of the swap API that is over. */
async function createScene(): Promise<RunningGateway> {
  const gateway = await gatewayWith({
    TRUST_PROXY: 'loopback',
    QUOTE_PARTITION: 'none',
    breakerFailures: 2,
    breakerOpenMs: 1_500,
  })
  await act(gateway, 'faults', { latencyMs: 25, quoteLifetimeMs: 600 })
  await refuseLateOrders(gateway)
  await act(gateway, 'faults', { quoteLifetimeMs: 14_000 })
  onTestFinished(sendTraffic(gateway))
  await pause(times.trafficMs)
  await setOutage(gateway, true)
  await pause(times.outageMs)
  await setOutage(gateway, false)
  await pause(times.trafficMs)
  return gateway
}

/** Of two applications, one is often late. */
async function refuseLateOrders(gateway: RunningGateway): Promise<void> {
  const ofWeb = ['0.1', '0.25', '1'].map((amount) => ({ amount, application: 'web' }))
  const late = [...ofWeb, { pair: 'BTC_USDC', application: 'wallet-ios' }]
  for (const asked of late) {
    await quote(gateway, asked)
    await pause(150)
  }
  await pause(1_200)
  for (const asked of late) await floatOrder(gateway, asked)
  const inTime = { amount: '2.5', application: 'web' }
  await quote(gateway, inTime)
  await floatOrder(gateway, inTime)
}

const pairs = ['ETH_USDC', 'BTC_USDC', 'SOL_USDT', 'BTC_ETH', 'ETH_BTC']
const amounts = ['0.1', '0.25', '1', '2.5']

/** Of the quotes that are asked for, some are ordered and some have no amount; now and then there is a payment. */
function sendTraffic(gateway: RunningGateway): () => void {
  let number = 0
  const send = async () => {
    number += 1
    const pair = pairs[((number * 7) % 13) % pairs.length] ?? ''
    const amount =
      number % 41 === 0 ? '0' : (amounts[((number * 5) % 11) % amounts.length] ?? '')
    const headers = { Authorization: 'Bearer k' }
    if (number % 17 === 0) await fetch(`${gateway.url}/checkouts?limit=1`, { headers })
    const asked = { pair, amount, application: 'wallet-ios' }
    await quote(gateway, asked)
    if (number % 23 === 0) await floatOrder(gateway, asked)
  }
  const timer = setInterval(() => void send().catch(() => {}), 60)
  return () => clearInterval(timer)
}

useBrowser()

describeInBrowser('the console at work', () => {
  test.each(isRenewing ? pictures : pictures.slice(-1))(
    'is taken without an error on the page, whose words are those of its pictures: $name',
    // Each waits for a minute of traffic when it is renewed, and the browser of a busy machine draws slowly.
    { timeout: 300_000 },
    async ({ name, colorScheme, width, height, isInOutage }) => {
      const gateway = await createScene()
      const { page } = await openPage(gateway.operationsUrl, {
        viewport: { width, height },
        colorScheme,
      })
      if (isInOutage) {
        await setOutage(gateway, true)
        await pause(times.outageMs)
      } else {
        const ask = page.getByRole('button', { name: 'Ask for a quote' })
        for (let asked = 1; asked <= 2; asked += 1) {
          await ask.click()
          await expect.poll(() => page.locator('#try .steps li').count()).toBe(asked)
        }
      }
      await page.evaluate('scrollTo(0, 0)')
      await page.mouse.move(4, 4)
      await pause(1_200)
      const shot = await page.screenshot(pathOf(name))
      expect(shot.length).toBeGreaterThan(20_000)
      expect(shot.length).toBeLessThan(400_000)
      await expectAccessible(page, [width])
      const words = await wordsOf(page)
      if (isRenewing) writeFileSync(wordsFile, words)
      expect(words, 'npm run pictures').toBe(readFileSync(wordsFile, 'utf8'))
    },
  )
})
